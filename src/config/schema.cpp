// The table of keys. Names are those of Hugging Face's TrainingArguments and of GPT-2's config.json, if they
// have the key.
#include "config/schema.h"

#include <array>

namespace tidepool {

namespace {

constexpr std::array<Section, 7> section_table = {{
    {"model", "Fields of config.json (Hugging Face), or `model: DIRECTORY` with one"},
    {"lora", "Adapters beside a frozen model; names as in PEFT's LoraConfig"},
    {"data", "Data for training and evaluation"},
    {"train", "Training; names as in Hugging Face TrainingArguments"},
    {"memory", "Budgets of memory and disk, never exceeded but by a swap file's records"},
    {"machine", "Hardware that trains"},
    {"output", "Files that a run writes, and how often"},
}};

using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 3> precisions = {"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> recomputes = {"auto", "keep", "recompute"};
constexpr std::array<std::string_view, 3> auto_on_off = {"auto", "on", "off"};
constexpr std::array<std::string_view, 5> homes = {"auto", "device", "host", "disk", "mixed"};
constexpr std::array<std::string_view, 3> parallels = {"data", "layers", "auto"};
constexpr std::array<std::string_view, 3> io_backends = {"auto", "io_uring", "threads"};
constexpr std::array<std::string_view, 6> formats = {"auto", "text", "llmc", "nanogpt", "npy", "jsonl"};

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

constexpr Range at_least_one_u32 = {1, 4294967294.0};
constexpr u64 chosen = 0;  // value of numbers that means "chosen automatically"

const std::array other_fields = std::to_array<Field>({
    // data
    {.section = "data",
     .key = "train",
     .ref = REF(data.train),
     .help = "Files, directories (with all files below) or globs: UTF-8 text, JSONL (both also as .gz, "
             ".zst), llm.c, nanoGPT or .npy tokens; an entry may be {path, weight}",
     .required = true},
    {.section = "data",
     .key = "format",
     .ref = CHOICE(data.format),
     .help = "How to read the files; auto looks at the first bytes and the name",
     .choices = Names(formats)},
    {"data",
     "validation_fraction",
     REF(data.validation_fraction),
     "Share of the data that is held out for evaluation",
     "",
     {0, 0.9}},
    {.section = "data",
     .key = "validation",
     .ref = REF(data.validation),
     .help = "Files, directories or globs to evaluate on, whole; no share of train is held out then"},
    {"data", "shuffle", REF(data.shuffle), "Visit the sequences of each epoch in a seeded random order"},
    {.section = "data",
     .key = "weights",
     .ref = REF(data.weights),
     .help = "Documents only: a weight for each entry of train, its share of the sequences; if empty, all "
             "entries are one source"},
    {.section = "data",
     .key = "records",
     .ref = REF(data.records),
     .help = "Shape of the JSONL lines; auto looks at the first line of each source",
     .choices = Names(record_kinds)},
    {.section = "data",
     .key = "on_bad_record",
     .ref = REF(data.on_bad_record),
     .help = "Handling of unusable JSONL lines: error ends the run before its first step; skip leaves them "
             "out, counts them and names the first few",
     .choices = Names(bad_record_ways)},
    {.section = "data",
     .key = "tokenizer",
     .ref = REF(data.tokenizer),
     .help =
         "A tokenizer.json, or a directory that holds one; empty: the model directory's tokenizer, or, if "
         "it has none, one token per byte"},
    {.section = "data",
     .key = "chat_template",
     .ref = REF(data.chat_template),
     .help = "A Jinja file, or chatml; empty: the model directory's template"},
    {.section = "data",
     .key = "chat_template_arguments",
     .ref = REF(data.chat_template_arguments),
     .help = "Arguments of the chat template, each name=value, such as enable_thinking=false"},
    {.section = "data",
     .key = "loss",
     .ref = REF(data.loss),
     .help = "Part of chats and completions that has loss; plain text has loss everywhere",
     .choices = Names(loss_kinds)},
    {"data", "end_token", REF(data.end_token),
     "End texts and completions with the eos_token (or eos_token_id) beside the tokenizer"},
    {"data", "packing", REF(data.packing),
     "Put several documents into a sequence; attention stays within each (not with GPT-2)"},
    {.section = "data",
     .key = "cache",
     .ref = REF(data.cache),
     .help = "Directory of tokenized documents; empty: data-cache beside output.dir"},

    // train
    {.section = "train",
     .key = "precision",
     .ref = CHOICE(train.precision),
     .help = "fp32; or weights in bf16 or fp16 with an exact fp32 master, fp16 with dynamic loss scaling",
     .choices = Names(precisions)},
    {"train", "seed", REF(train.seed), "Seeds weights, order of the data and dropout"},
    {.section = "train",
     .key = "max_steps",
     .ref = REF(train.max_steps),
     .help = "Optimizer steps to train; 0 writes the initial state as a checkpoint; auto trains for "
             "num_train_epochs, and is the default if that key is set",
     .unit = "steps",
     .range = {0, 1e15},
     .automatic = steps_by_epochs},
    {"train",
     "num_train_epochs",
     REF(train.num_train_epochs),
     "Passes over the data if max_steps is not set; may be a fraction; 0: not set",
     "epochs",
     {0, 1e9}},
    {"train",
     "per_device_train_batch_size",
     REF(train.per_device_train_batch_size),
     "Sequences per micro-batch",
     "sequences",
     at_least_one_u32,
     {},
     {},
     "micro_batch_size"},
    {"train",
     "sequence_length",
     REF(train.sequence_length),
     "Tokens per sequence, at most the model's positions",
     "tokens",
     at_least_one_u32,
     {},
     {},
     "block_size"},
    {"train",
     "gradient_accumulation_steps",
     REF(train.gradient_accumulation_steps),
     "Micro-batches per optimizer step",
     "",
     {1, 1e6}},
    {"train", "learning_rate", REF(train.learning_rate), "Peak learning rate", "", {0, 1e6}},
    {.section = "train",
     .key = "lr_scheduler_type",
     .ref = REF(train.lr_scheduler_type),
     .help = "Shape of the learning rate over the run",
     .choices = Names(lr_schedulers)},
    {"train",
     "warmup_steps",
     REF(train.warmup_steps),
     "Steps of linear warm-up; below 1 a share of max_steps",
     "steps",
     {0, 1e15}},
    {"train",
     "min_lr_rate",
     REF(train.min_lr_rate),
     "Floor of cosine_with_min_lr and warmup_stable_decay as a share of learning_rate; the warm-up of "
     "warmup_stable_decay begins there",
     "",
     {0, 1},
     {},
     {},
     "min_lr_ratio"},
    {.section = "train",
     .key = "num_decay_steps",
     .ref = REF(train.num_decay_steps),
     .help =
         "warmup_stable_decay: steps from the peak to the floor; auto: a tenth of those after the warm-up",
     .unit = "steps",
     .range = {0, 1e15},
     .automatic = tenth_of_steps},
    {.section = "train",
     .key = "num_stable_steps",
     .ref = REF(train.num_stable_steps),
     .help = "warmup_stable_decay: steps at the peak; after them and the decay the floor remains; auto: all "
             "that are neither warm-up nor decay",
     .unit = "steps",
     .range = {0, 1e15},
     .automatic = remaining_steps},
    {.section = "train",
     .key = "decay_type",
     .ref = REF(train.decay_type),
     .help = "warmup_stable_decay: shape of the decay",
     .choices = Names(rate_curves)},
    {.section = "train",
     .key = "warmup_type",
     .ref = REF(train.warmup_type),
     .help = "warmup_stable_decay: shape of the warm-up",
     .choices = Names(rate_curves)},
    {"train",
     "num_cycles",
     REF(train.num_cycles),
     "warmup_stable_decay: waves of a cosine decay; 0.5 only falls",
     "",
     {0, 1e6}},
    {"train",
     "weight_decay",
     REF(train.weight_decay),
     "Decoupled decay of matrices and embeddings; never of biases and norms",
     "",
     {0, 1e6}},
    {"train", "adam_beta1", REF(train.adam_beta1), "Decay of the first moment", "", probability},
    {"train", "adam_beta2", REF(train.adam_beta2), "Decay of the second moment", "", probability},
    {"train",
     "adam_epsilon",
     REF(train.adam_epsilon),
     "Added to the root of the second moment",
     "",
     {1e-30, 1}},
    {"train",
     "max_grad_norm",
     REF(train.max_grad_norm),
     "Clip gradients to this global L2 norm; 0 is off",
     "",
     {0, 1e30}},
    {"train",
     "eval_steps",
     REF(train.eval_steps),
     "Steps between evaluations; 0: evaluates only at the end",
     "steps",
     {0, 1e15}},
    {"train",
     "eval_batches",
     REF(train.eval_batches),
     "Micro-batches per evaluation during training; 0: all held-out data, as in tidepool eval",
     "micro-batches",
     {0, 1e15}},
    {"train",
     "early_stopping_patience",
     REF(train.early_stopping_patience),
     "Stop after this many evaluations in a row without a better eval_loss; 0: never stop early",
     "evaluations",
     {0, 1e9}},
    {"train",
     "early_stopping_threshold",
     REF(train.early_stopping_threshold),
     "Decrease below the best eval_loss so far that counts as better",
     "",
     {0, 1e6}},
    {.section = "train",
     .key = "recompute",
     .ref = CHOICE(train.recompute),
     .help = "Save the inside of blocks for backward, or recompute it",
     .choices = Names(recomputes)},
    {.section = "train",
     .key = "speculate",
     .ref = CHOICE(train.speculate),
     .help = "Update before the gradient norm is known; a step that had to be clipped is trained again",
     .choices = Names(auto_on_off)},
    {"train",
     "init_scale",
     REF(train.init_scale),
     "fp16: initial loss scale, so that small gradients do not vanish",
     "",
     {1, 0x1p32}},
    {"train",
     "growth_factor",
     REF(train.growth_factor),
     "fp16: factor on the scale after growth_interval steps without overflow; above 1",
     "",
     {1, 65536}},
    {"train",
     "backoff_factor",
     REF(train.backoff_factor),
     "fp16: factor on the scale after an overflow, whose step changes no weight; below 1",
     "",
     {1e-6, 1}},
    {"train",
     "growth_interval",
     REF(train.growth_interval),
     "fp16: steps in a row without overflow after which the scale grows",
     "steps",
     {1, 4294967294.0},
     {},
     {},
     "loss_scale_window"},
    {"train",
     "min_loss_scale",
     REF(train.min_loss_scale),
     "fp16: minimum scale; an overflow at this scale ends the run",
     "",
     {1e-9, 0x1p32}},

    // memory
    {.section = "memory",
     .key = "device",
     .ref = REF(memory.budgets.device),
     .help = "Device memory for training; with the cpu executor, an arena in host memory",
     .required = true},
    {.section = "memory",
     .key = "host",
     .ref = REF(memory.budgets.host),
     .help = "Host memory for training, in addition to device",
     .required = true},
    {.section = "memory",
     .key = "disk",
     .ref = REF(memory.budgets.disk),
     .help = "Size of the swap file; auto: the free space of its file system; 0: no disk",
     .automatic = disk_auto.value},
    {"memory", "swap_dir", REF(memory.swap_dir), "Directory of the swap file; empty: output.dir/swap"},
    {.section = "memory",
     .key = "home",
     .ref = CHOICE(memory.home),
     .help = "Tier that keeps state between uses; auto: the nearest to computing that memory allows",
     .choices = Names(homes)},
    {"memory",
     "versions",
     REF(memory.versions),
     "Versions of the trained state in the swap file. With 2, a killed run resumes from the last recorded "
     "step (output.persist_steps); with 3, steps are recorded while a checkpoint is written, too; 1: it "
     "resumes from a checkpoint; auto: as many as there is room for, if state rests on disk",
     "",
     {0, 3},
     {},
     chosen},
    {.section = "memory",
     .key = "chunk_size",
     .ref = REF(memory.chunk_size),
     .help = "Size of an fp32 chunk; auto: the planner chooses",
     .automatic = chosen},
    {"memory",
     "sweeps",
     REF(memory.sweeps),
     "Passes over the model per step; auto: the planner chooses",
     "",
     {0, 65536},
     {},
     chosen},
    {"memory",
     "experts_per_group",
     REF(memory.experts_per_group),
     "Experts of a layer that come to the device together; auto: as many as a quarter of memory.device can "
     "stream. Models without experts ignore it",
     "experts",
     {0, experts_max},
     {},
     chosen},
    {.section = "memory",
     .key = "io",
     .ref = CHOICE(memory.io),
     .help = "Interface to the disk; auto: io_uring if permitted, else threads",
     .choices = Names(io_backends)},
    {"memory", "queue_depth", REF(memory.queue_depth), "Disk requests in flight", "requests", {1, 1024}},
    {"memory",
     "lookahead",
     REF(memory.lookahead),
     "Ops that movements may run ahead; auto: as many as memory allows",
     "ops",
     {0, 1e9},
     {},
     chosen},
    {.section = "memory",
     .key = "nodes",
     .ref = REF(memory.nodes),
     .help = "Under mpirun or srun: settings of some nodes, numbered from 0, such as "
             "[\"1: memory.host=24GiB\", \"2-3: memory.host=64GiB machine.threads=8\"]; memory, paths and "
             "which devices, but not how many, may differ between nodes"},

    // machine
    {.section = "machine",
     .key = "executor",
     .ref = REF(machine.executor),
     .help = "Devices that compute: auto (a GPU if one can be used, else cpu), cpu, cpu:N for N devices of "
             "memory.device "
             "each, cuda for the first GPU, cuda:I for "
             "the GPU that CUDA numbers I (from 0), cuda:I,J for several GPUs with memory.device each"},
    {.section = "machine",
     .key = "parallel",
     .ref = CHOICE(machine.parallel),
     .help = "Several devices: data gives each some of the micro-batches, layers gives each some of the "
             "layers (for devices without a fast connection), auto takes what machine.file predicts to be "
             "faster. The choice changes the order of sums, and so the last digits",
     .choices = Names(parallels)},
    {"machine",
     "threads",
     REF(machine.threads),
     "Worker threads; auto: one per core",
     "threads",
     {0, 4096},
     {},
     chosen},
    {.section = "machine",
     .key = "file",
     .ref = REF(machine.file),
     .help =
         "Machine file from `tidepool probe`: the plan with the shortest predicted step is chosen; empty: "
         "the plan with the fewest bytes moved",
     .alias = "machine"},
    {"machine", "tune_products", REF(machine.tune_products),
     "On GPUs, time cuBLASLt's algorithms for each matrix product once, before the first step, and keep the "
     "fastest in tuned-products.txt beside output.dir (with output.save=false, for this run only: another "
     "run may choose other algorithms); false takes cuBLASLt's first advice"},
    {.section = "machine",
     .key = "peer_timeout_seconds",
     .ref = REF(machine.peer_timeout_seconds),
     .help = "Under mpirun or srun: a node that does not answer for this long has failed, and the others end",
     .unit = "seconds",
     .range = {0.5, 3600}},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> schema() {
  static const std::vector<Field> all = [] {
    std::vector<Field> fields(model_fields().begin(), model_fields().end());
    fields.insert(fields.end(), lora_fields().begin(), lora_fields().end());
    fields.insert(fields.end(), other_fields.begin(), other_fields.end());
    fields.insert(fields.end(), output_fields().begin(), output_fields().end());
    return fields;
  }();
  return all;
}
std::span<const Section> sections() { return section_table; }

std::vector<const Field*> find_fields(std::string_view section, std::string_view key) {
  std::vector<const Field*> found;
  for (const Field& field : schema()) {
    const bool named = field.key == key || (!field.alias.empty() && field.alias == key);
    if (named && (section.empty() || section == field.section)) found.push_back(&field);
  }
  return found;
}

}  // namespace tidepool
