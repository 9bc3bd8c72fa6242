// Keys of section `output`.
#include <array>

#include "config/schema.h"

namespace tidepool {
namespace {

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }

const std::array output_table = std::to_array<Field>({
    {.section = "output",
     .key = "dir",
     .ref = REF(output.dir),
     .help = "Run directory: checkpoints, metrics, report",
     .alias = "output_dir"},
    {"output", "logging_steps", REF(output.logging_steps), "Steps between log lines", "steps", {1, 1e15}},
    {"output", "save", REF(output.save),
     "Write checkpoints; false is for measurements: the run keeps nothing for later runs"},
    {"output",
     "save_steps",
     REF(output.save_steps),
     "Steps between checkpoints; 0: saves by save_minutes and at the end",
     "steps",
     {0, 1e15}},
    {"output",
     "save_minutes",
     REF(output.save_minutes),
     "Save when the last checkpoint is this old; 0: never by time",
     "minutes",
     {0, 1e9}},
    {"output",
     "last_save_minutes",
     REF(output.last_save_minutes),
     "Time for retries if the last save of a run fails, such as on a full disk; then the run ends with exit "
     "code 6",
     "minutes",
     {0, 1e9}},
    {"output",
     "persist_steps",
     REF(output.persist_steps),
     "Steps between commits of the state in the swap file, with memory.versions of 2 or 3; a killed run "
     "repeats at most one more. auto: so many that commits take about 2 % of the time at most, as the "
     "run measures",
     "steps",
     {0, 1e15},
     {},
     u64{0}},  // chosen automatically
    {"output",
     "save_total_limit",
     REF(output.save_total_limit),
     "Checkpoints to keep",
     "checkpoints",
     {1, 1e6}},
    {.section = "output",
     .key = "report_to",
     .ref = REF(output.report_to),
     .help = "Logs beside metrics.jsonl, of tensorboard and csv (metrics.csv); none: no other"},
    {.section = "output",
     .key = "max_shard_size",
     .ref = REF(output.max_shard_size),
     .help = "Largest size of one file of weights; larger weights are written as several files; a tensor "
             "is never cut"},
    {"output", "trace", REF(output.trace), "Write trace.json, which opens in Perfetto"},
});

#undef REF

}  // namespace

std::span<const Field> output_fields() { return output_table; }

}  // namespace tidepool
