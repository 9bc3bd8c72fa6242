// The effective configuration: what a YAML file and key=value overrides come to.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tidepool/lora.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/policy.h"

namespace tidepool {

enum class IoBackend : u8 { automatic, io_uring, threads };
enum class DataFormat : u8 { automatic, text, llmc, nanogpt, npy, jsonl };
// What data.records and data.loss may be.
inline constexpr std::array<std::string_view, 7> record_kinds = {
    "auto", "text", "messages", "sharegpt", "alpaca", "completion", "tokens"};
inline constexpr std::array<std::string_view, 3> loss_kinds = {"answers", "last_answer", "all"};
// Values of data.on_bad_record.
inline constexpr std::array<std::string_view, 2> bad_record_ways = {"error", "skip"};

struct DataConfig {
  std::vector<std::string> train;  // files, directories, globs
  DataFormat format = DataFormat::automatic;
  double validation_fraction = 0.05;  // the held-out tail of the tokens, or a share of the documents
  std::vector<std::string>
      validation;  // files, directories, globs, held out whole; then no share of `train` is
  bool shuffle = true;
  // Of documents: JSONL, and text where there is a tokenizer.
  std::vector<double> weights;  // by entry of `train`, which then are sources of their own; empty: one source
  std::string records = "auto";         // one of record_kinds
  std::string on_bad_record = "error";  // one of bad_record_ways
  std::string tokenizer;  // a tokenizer.json, or a directory with one; empty: the model directory's, or bytes
  std::string chat_template;                         // a file, or chatml; empty: the model directory's
  std::vector<std::string> chat_template_arguments;  // "name=value"
  std::string loss = "answers";                      // one of loss_kinds
  bool end_token = true;                             // behind texts and completions
  bool packing = true;
  // No key: whether the files hold documents, once they were looked at (look_at_rows of run/open_data.h).
  std::optional<bool> rows_are_shared;
  std::string cache;  // directory of tokenized documents; empty: beside output.dir

  bool operator==(const DataConfig&) const = default;
};

// What train.lr_scheduler_type may be.
inline constexpr std::array<std::string_view, 6> lr_schedulers = {
    "linear", "cosine", "constant", "constant_with_warmup", "cosine_with_min_lr", "warmup_stable_decay"};

// train.max_steps: auto. The trainer puts in its place what train.num_train_epochs comes to once the data is
// known (run/train_length.h).
inline constexpr u64 steps_by_epochs = ~u64{0};

struct TrainConfig {
  Precision precision = Precision::bf16;
  u64 seed = 42;
  u64 max_steps = 100;
  double num_train_epochs = 0;          // 0: max_steps alone says how long
  u32 per_device_train_batch_size = 1;  // sequences per micro-batch
  u32 sequence_length = 256;
  u32 gradient_accumulation_steps = 1;
  double learning_rate = 5e-5;
  std::string lr_scheduler_type = "cosine";
  double warmup_steps = 0;   // an integer, or a ratio in [0, 1)
  double min_lr_rate = 0.1;  // cosine_with_min_lr
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;       // 0: off
  u64 eval_steps = 0;               // 0: at the end only
  u64 eval_batches = 8;             // micro-batches per evaluation; 0: all held-out data
  u64 early_stopping_patience = 0;  // evaluations; 0: train to max_steps
  double early_stopping_threshold = 0;
  RecomputePolicy recompute = RecomputePolicy::automatic;
  // Of fp16's loss scale; names and defaults of PyTorch's GradScaler, min_loss_scale of DeepSpeed.
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  u64 growth_interval = 2000;  // steps
  double min_loss_scale = 1;

  bool operator==(const TrainConfig&) const = default;
};

// memory.disk: auto. Whoever plans puts in its place what the swap directory's file system has free
// (session/session.h). 0 is no disk at all.
inline constexpr Bytes disk_auto{~u64{0}};

struct MemoryConfig {
  Budgets budgets{.disk = disk_auto};  // memory.device, memory.host, memory.disk
  std::string swap_dir;                // empty: <output.dir>/swap
  HomePolicy home = HomePolicy::automatic;
  Bytes chunk_size{0};  // bytes of an fp32 chunk; 0: chosen
  u32 sweeps = 0;       // 0: chosen
  IoBackend io = IoBackend::automatic;
  u32 queue_depth = 32;
  u32 lookahead = 0;  // ops of look-ahead; 0: as far as memory allows

  bool operator==(const MemoryConfig&) const = default;
};

struct MachineConfig {
  // cpu, cpu:N for N devices made of the same cores, cuda for the first GPU, cuda:I or cuda:I,J,... for these
  std::string executor = "cpu";
  u32 threads = 0;            // 0: all cores of this process
  std::string file;           // a machine file, to choose the plan by predicted time; empty: by bytes
  bool tune_products = true;  // of GPUs; false: algorithms are the library's first advice

  // REQUIRES: a valid executor; of auto, as on the cores.
  u32 devices() const;
  std::vector<u32> gpus() const;  // as CUDA counts them; none: devices are made of cores
  bool operator==(const MachineConfig&) const = default;
};

struct OutputConfig {
  std::string dir = "runs/tidepool";
  u64 logging_steps = 1;
  bool save = true;               // false: no checkpoints, not even at the end
  u64 save_steps = 0;             // 0: by save_minutes and at the end only
  double save_minutes = 30;       // 0: never by time
  double last_save_minutes = 10;  // how long the last save is tried again
  u64 save_total_limit = 2;
  Bytes max_shard_size{5'000'000'000};  // of a file of weights; Hugging Face's unit and name
  bool trace = true;

  bool operator==(const OutputConfig&) const = default;
};

struct GenerateConfig {
  std::string prompt = "\n";
  u64 max_new_tokens = 200;
  double temperature = 0.8;
  u32 top_k = 40;
  bool chat = false;  // the prompt is what a user says, and the model's chat template goes around it
};

struct Config {
  ModelConfig model;
  // To start from: its weights are loaded where a run begins anew, and its tokenizer's files are what
  // checkpoints carry along. Empty: random weights.
  std::string model_directory;
  LoraConfig lora;
  DataConfig data;
  TrainConfig train;
  MemoryConfig memory;
  MachineConfig machine;
  OutputConfig output;

  bool operator==(const Config&) const = default;
};

// memory.swap_dir, or where the swap file goes without it.
std::string swap_directory(const Config&);

// Where a run keeps what checkpoints carry along of its model directory: all but the weights.
std::string kept_model_directory(const Config&);

// data.cache, or where tokenized documents lie without it.
std::string data_cache_directory(const Config&);

// File in which runs on GPUs keep which algorithms were fastest: tuned-products.txt beside output.dir, as an
// absolute path without links.
std::string product_file(const Config&);

// The effective config, every key, commented from the schema. parse_config(to_yaml(c)) == c.
std::string to_yaml(const Config&);

// What the schema says, for people: 80 columns of text, a page of markdown, a bash completion script.
std::string config_help();
std::string config_markdown();

}  // namespace tidepool
