// Config is the effective configuration: a YAML file with key=value overrides applied.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tidepool/lora.h"
#include "tidepool/model_graph.h"
#include "tidepool/objective.h"
#include "tidepool/plan.h"
#include "tidepool/policy.h"

namespace tidepool {

enum class IoBackend : u8 { automatic, io_uring, threads };
enum class DataFormat : u8 { automatic, text, llmc, nanogpt, npy, jsonl };
// Values of data.records and data.loss.
inline constexpr std::array<std::string_view, 7> record_kinds = {
    "auto", "text", "messages", "sharegpt", "alpaca", "completion", "tokens"};
inline constexpr std::array<std::string_view, 3> loss_kinds = {"answers", "last_answer", "all"};
// Values of data.on_bad_record.
inline constexpr std::array<std::string_view, 2> bad_record_actions = {"error", "skip"};

struct DataConfig {
  std::vector<std::string> train;  // files, directories, globs
  DataFormat format = DataFormat::automatic;
  double validation_fraction = 0.05;  // share of tokens at the end, or of documents
  std::vector<std::string>
      validation;  // held-out files, directories, globs; nothing of `train` is held out then
  bool shuffle = true;
  // The following keys are for documents: JSONL, and text with a tokenizer.
  std::vector<double> weights;   // by entry of `train`, each a source of its own then; empty: one source
  std::string records = "auto";  // one of record_kinds
  std::string on_bad_record = "error";  // one of bad_record_actions
  std::string tokenizer;      // a tokenizer.json, or its directory; empty: the model directory's, or bytes
  std::string chat_template;  // a file, or chatml; empty: the model directory's
  std::vector<std::string> chat_template_arguments;  // "name=value"
  std::string loss = "answers";                      // one of loss_kinds
  bool end_token = true;                             // appended to texts and completions
  bool packing = true;
  // Not a key. True if a sequence may hold several documents; none until the files were checked (look_at_rows
  // of run/open_data.h).
  std::optional<bool> rows_are_shared;
  std::string cache;  // directory of tokenized documents; empty: next to output.dir
  // Not a key. For an objective with labels (config_files/parse.cpp): documents are texts with one of these.
  std::optional<ScoreHead> labelled;
  UnitSettings units;  // not a key; for an objective whose documents are units of sequences

  bool operator==(const DataConfig&) const = default;
};

enum class AutoBool : u8 { automatic, yes, no };
inline constexpr std::array<std::string_view, 3> auto_bool_names = {"auto", "true", "false"};

// Values of train.lr_scheduler_type.
inline constexpr std::array<std::string_view, 6> lr_schedulers = {
    "linear", "cosine", "constant", "constant_with_warmup", "cosine_with_min_lr", "warmup_stable_decay"};

// Values of train.decay_type and train.warmup_type.
inline constexpr std::array<std::string_view, 3> rate_curves = {"linear", "cosine", "1-sqrt"};
// train.num_stable_steps: auto. All steps that are neither warm-up nor decay.
inline constexpr u64 remaining_steps = ~u64{0};
// train.num_decay_steps: auto. A tenth of the steps after the warm-up; 0 is no decay.
inline constexpr u64 tenth_of_steps = ~u64{0};

// train.max_steps: auto. The trainer replaces it by the number of steps of train.num_train_epochs when the
// data is known (run/train_length.h).
inline constexpr u64 steps_by_epochs = ~u64{0};

struct TrainConfig {
  Precision precision = Precision::bf16;
  u64 seed = 42;
  u64 max_steps = 100;
  double num_train_epochs = 0;          // 0: only max_steps counts
  u32 tile_tokens = 0;                  // sequences that are longer are computed in tiles; 0: chosen
  u32 per_device_train_batch_size = 1;  // sequences per micro-batch
  u32 sequence_length = 256;
  u32 gradient_accumulation_steps = 1;
  double learning_rate = 5e-5;
  std::string lr_scheduler_type = "cosine";
  double warmup_steps = 0;   // an integer, or a ratio in [0, 1)
  double min_lr_rate = 0.1;  // cosine_with_min_lr, warmup_stable_decay
  // warmup_stable_decay only.
  u64 num_decay_steps = tenth_of_steps;
  u64 num_stable_steps = remaining_steps;
  std::string decay_type = "cosine", warmup_type = "linear";
  double num_cycles = 0.5;
  Optim optim = Optim::adamw_torch;
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double sgd_momentum = 0.9;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  u32 muon_ns_steps = 5;
  AdjustRate muon_adjust_lr_fn = AdjustRate::original;
  std::vector<std::string> optim_groups;  // "embedding, head: learning_rate=3e-4", ...
  double max_grad_norm = 1.0;             // 0: off
  double neftune_noise_alpha = 0;         // 0: none
  u64 eval_steps = 0;                     // 0: only at the end
  u64 eval_batches = 8;                   // micro-batches per evaluation; 0: all held-out data
  u64 early_stopping_patience = 0;        // evaluations; 0: train up to max_steps
  double early_stopping_threshold = 0;
  std::string metric_for_best_model = "eval_loss";
  AutoBool greater_is_better{};
  RecomputePolicy recompute = RecomputePolicy::automatic;
  SpeculatePolicy speculate = SpeculatePolicy::automatic;
  // Loss scale of fp16. Names and defaults are those of PyTorch's GradScaler; min_loss_scale is DeepSpeed's.
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  u64 growth_interval = 2000;  // steps
  double min_loss_scale = 1;

  bool operator==(const TrainConfig&) const = default;
};

// memory.disk: auto. Planning replaces it by the free space of the swap directory's file system
// (disk_budget() in fit/disk_budget.h). A value of 0 means no disk.
inline constexpr Bytes disk_auto{~u64{0}};

struct MemoryConfig {
  Budgets budgets{.disk = disk_auto};  // memory.device, memory.host, memory.disk
  std::string swap_dir;                // empty: <output.dir>/swap
  HomePolicy home = HomePolicy::automatic;
  u32 versions = 0;           // of the state on disk: 1 to 3; 0: automatic
  Bytes chunk_size{0};        // bytes of an fp32 chunk; 0: automatic
  u64 piece_tokens = 0;       // of a long sequence, that one op computes; 0: automatic
  u32 experts_per_group = 0;  // experts of a layer that come up together; 0: automatic
  u32 sweeps = 0;             // 0: automatic
  IoBackend io = IoBackend::automatic;
  u32 queue_depth = 32;
  u32 lookahead = 0;  // ops; 0: as many as memory allows
  LookupPolicy lookup = LookupPolicy::automatic;
  std::vector<std::string> nodes;  // several nodes: "2-3: memory.host=64GiB", settings of some of them

  bool operator==(const MemoryConfig&) const = default;
};

struct MachineConfig {
  // cpu; cpu:N for N devices made of the same cores; cuda for the first GPU; cuda:I or cuda:I,J,... for these
  // GPUs
  std::string executor = "cpu";
  Parallel parallel = Parallel::data;  // of several devices
  u32 threads = 0;                     // 0: all cores that this process may use
  std::string file;           // machine file, to choose the plan by predicted time; empty: by bytes moved
  bool tune_products = true;  // for GPUs; false: takes the first algorithm that the library proposes
  double peer_timeout_seconds = 10;  // of several nodes: one that is silent for so long has failed

  // Not keys: a training on several nodes learns them from its launcher.
  u32 nodes = 1, node = 0;

  // RETURNS: number of devices; for auto, as for cpu.
  // REQUIRES: a valid executor.
  u32 devices() const;
  std::vector<u32> gpus() const;  // in CUDA's numbering; none: devices are made of cores
  bool operator==(const MachineConfig&) const = default;
};

// The logs that output.report_to may name; report/sinks has them.
inline constexpr std::array<std::string_view, 2> report_to_names = {"tensorboard", "csv"};

struct OutputConfig {
  std::string dir = "runs/tidepool";
  u64 logging_steps = 1;
  bool save = true;               // false: no checkpoints at all
  u64 save_steps = 0;             // 0: saves by save_minutes and at the end only
  double save_minutes = 30;       // 0: never saves by time
  double last_save_minutes = 10;  // time limit for retries of the last save
  u64 save_total_limit = 2;
  u64 persist_steps = 0;                // between commits of the state in the swap file; 0: automatic
  Bytes max_shard_size{5'000'000'000};  // of one file of weights; Hugging Face's name and unit
  bool trace = true;
  std::vector<std::string> report_to = {"tensorboard"};  // logs beside metrics.jsonl

  bool operator==(const OutputConfig&) const = default;
};

struct GenerateConfig {
  std::string prompt = "\n";
  u64 max_new_tokens = 200;
  double temperature = 0.8;
  u32 top_k = 40;
  bool chat = false;  // the prompt is a user's message, put into the model's chat template
};

struct Config {
  ModelConfig model;
  // Directory of the base model. A new run loads its weights; checkpoints carry its tokenizer's files along.
  // Empty: random weights.
  std::string model_directory;
  LoraConfig lora;
  DataConfig data;
  ObjectiveConfig objective;
  TrainConfig train;
  MemoryConfig memory;
  MachineConfig machine;
  OutputConfig output;

  bool operator==(const Config&) const = default;
};

// memory.swap_dir, or its default.
std::string swap_directory(const Config&);

// Directory where a run keeps the files of the model directory that checkpoints carry along: all but the
// weights.
std::string kept_model_directory(const Config&);

// data.cache, or its default.
std::string data_cache_directory(const Config&);

// File where runs on GPUs store their fastest algorithms, next to output.dir.
std::string product_file(const Config&);

// All keys of the effective config as YAML, with comments from the schema. parse_config(to_yaml(c)) == c.
std::string to_yaml(const Config&);

// The schema for people: help text of 80 columns, a page of markdown, a bash completion script.
std::string config_help();
std::string config_markdown();

}  // namespace tidepool
