// The table of keys. Names are those of Hugging Face's TrainingArguments and of GPT-2's config.json, if they
// have the key.
#include "config/schema.h"

#include <array>

namespace tidepool {

namespace {

constexpr std::array<Section, 8> section_table = {{
    {"model", "Fields of config.json (Hugging Face), or `model: DIRECTORY` with one"},
    {"lora", "Adapters beside a frozen model; names as in PEFT's LoraConfig"},
    {"data", "Data for training and evaluation"},
    {"objective", "What training makes the model better at"},
    {"train", "Training; names as in Hugging Face TrainingArguments"},
    {"memory", "Budgets of memory and disk, never exceeded but by a swap file's commits"},
    {"machine", "Hardware that trains"},
    {"output", "Files that a run writes, and how often"},
}};

using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 3> lookups = {"auto", "on", "off"};
constexpr std::array<std::string_view, 5> homes = {"auto", "device", "host", "disk", "mixed"};
constexpr std::array<std::string_view, 3> parallels = {"data", "layers", "auto"};
constexpr std::array<std::string_view, 3> io_backends = {"auto", "io_uring", "threads"};

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

constexpr u64 chosen = 0;  // value of numbers that means "chosen automatically"

const std::array other_fields = std::to_array<Field>({
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
     "Versions of the trained state in the swap file. With 2, a killed run resumes from the last committed "
     "step (output.persist_steps); with 3, steps are committed while a checkpoint is written, too; 1: it "
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
     "stream, or fewer, so that the job fits. Models without experts ignore it",
     "experts",
     {0, experts_max},
     {},
     chosen},
    {"memory",
     "piece_tokens",
     REF(memory.piece_tokens),
     "Tokens of a long sequence that one op computes, in whole tiles (train.tile_tokens); between its ops "
     "the rest of the sequence may leave the device. auto, or 0: as many as let six pieces of activations "
     "take a quarter of memory.device, or fewer, so that the job fits",
     "tokens",
     {0, 1e9},
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
     .key = "lookup",
     .ref = CHOICE(memory.lookup),
     .help = "A frozen embedding that is not the head's matrix: its rows travel, those of each micro-batch's "
             "tokens, and not the whole; auto: if it is larger than half of memory.device",
     .choices = Names(lookups)},
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
    fields.insert(fields.end(), data_fields().begin(), data_fields().end());
    fields.insert(fields.end(), objective_fields().begin(), objective_fields().end());
    fields.insert(fields.end(), train_fields().begin(), train_fields().end());
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
