#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "base/text/units.h"
#include "checkpoint/export_model.h"
#include "cli/command.h"
#include "huggingface/adapters/lora_merge.h"
#include "inference/export_source.h"
#include "inference/retry_rotated.h"
#include "io/file_system.h"
#include "report/print_text.h"
#include "report/status_line.h"
#include "run/outputs/signals.h"

namespace tidepool {
namespace {

constexpr std::array options_of_export = {
    Option{"dtype", "fp32|bf16|fp16|fp8", "type of the weights; default: unchanged"},
    Option{"max-shard-size", "SIZE", "largest size of a file of weights", "5GB"},
    Option{"base", "DIR", "base model of adapters, or the model a run began from"},
    Option{"text-only", "", "leave out a vision part and the like"},
};

struct ExportArguments {
  std::string source;  // a run (its newest sound checkpoint), a checkpoint or a model directory
  std::string out;     // a new directory
  std::string base;    // as in ExportRequest
  bool text_only = false;
  std::optional<Precision> dtype;
  bool fp8 = false;
  Bytes max_shard_size{5'000'000'000};
};

constexpr StopWords export_stop_words{.first = "\ntidepool: stopping; interrupt again to stop at once\n",
                                      .second = "\ntidepool: stopped at once; OUT was not made\n"};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<void> check_room(const std::string& out, Bytes bytes) {
  TRY_ASSIGN(const FileSystem at, look_at_file_system(out));
  if (at.free >= bytes) return {};
  return Error{ErrorKind::io,
               fmt::format("the model takes {}, but {} has {} free: free some space there, or name an OUT on "
                           "a larger disk",
                           bytes_text(bytes), at.dir, bytes_text(at.free))};
}

void show_progress(StatusLine& line, u64 done, Bytes all, double seconds) {
  const double share = static_cast<double>(done) / static_cast<double>(std::max<u64>(all.value, 1));
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
  line.show("exporting",
            fmt::format(" exporting {}: {} of {}, {}/s", percent_text(share), bytes_text(Bytes{done}),
                        bytes_text(all), bytes_text(Bytes{static_cast<u64>(rate)})),
            "exporting ...");
}

Result<void> write(const ModelExport& model, const std::string& out) {
  const StopSignals signals(export_stop_words);
  StatusLine line;
  const auto begin = std::chrono::steady_clock::now();
  double shown = -1;
  const std::unique_ptr<Files> files = create_posix_files(FileUse::other);
  return model.write(out, *files, [&](u64 done) {
    const double now = seconds_since(begin);
    if (now - shown > 0.1) show_progress(line, done, model.bytes(), shown = now);
    return !StopSignals::stop_requested();
  });
}

// Exports once. `reading`: set as retry_rotated() requires, to the checkpoint that is being read.
Result<void> export_once(const ExportArguments& arguments, std::string& reading) {
  TRY_ASSIGN(
      const ExportSource source,
      find_export_source({.path = arguments.source, .base = arguments.base, .text_only = arguments.text_only},
                         reading));
  for (const std::string& note : source.notes) print_text(stderr, "{}\n", note);
  std::unique_ptr<AdapterMerge> merge;
  if (!source.adapter.empty()) {
    TRY_ASSIGN(merge, AdapterMerge::open(source.adapter, source.directory));
    merge->name_labels(source.labels);
  }
  TRY_ASSIGN(const std::unique_ptr<ModelExport> model,
             ModelExport::open(source.directory, {.dtype = arguments.dtype,
                                                  .fp8 = arguments.fp8,
                                                  .max_shard_size = arguments.max_shard_size,
                                                  .change = merge.get(),
                                                  .base = source.base,
                                                  .text_only = arguments.text_only,
                                                  .adapter = source.adapter,
                                                  .weights_xxh3 = source.base_xxh3}));
  TRY(check_room(arguments.out, model->bytes()));
  const auto begin = std::chrono::steady_clock::now();
  const Result<void> written = write(*model, arguments.out);
  if (!written && written.error().kind == ErrorKind::interrupted)
    StopSignals::end_as_asked("tidepool: stopped; nothing was written\n");
  TRY(written);
  print_text("wrote {}: {} in {} file{} of weights, {}\n", arguments.out, bytes_text(model->bytes()),
             model->shards().size(), model->shards().size() == 1 ? "" : "s",
             seconds_text(seconds_since(begin)));
  return {};
}

Result<void> export_model(const ExportArguments& arguments) {
  return retry_rotated([](const std::string& line) { print_text(stderr, "{}\n", line); },
                       [&](std::string& reading) { return export_once(arguments, reading); });
}

Result<void> run_export(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words.size() != 2) return usage_error("export takes two words: SOURCE and OUT");
  ExportArguments out{.source = words[0], .out = words[1]};
  if (out.out.empty()) return usage_error("OUT: name a directory");
  if (arguments.has("dtype")) {
    const std::string dtype = arguments.text("dtype");
    for (u32 p = 0; p < precision_count; ++p)
      if (name(static_cast<Precision>(p)) == dtype) out.dtype = static_cast<Precision>(p);
    out.fp8 = dtype == "fp8";
    if (!out.dtype && !out.fp8)
      return usage_error(fmt::format("--dtype: '{}' is not fp32, bf16, fp16 or fp8", dtype));
  }
  if (arguments.has("base")) out.base = arguments.text("base");
  out.text_only = arguments.has("text-only");
  TRY_ASSIGN(out.max_shard_size, arguments.size("max-shard-size"));
  if (out.max_shard_size.value == 0) return usage_error("--max-shard-size: must be above 0");
  return export_model(out);
}

}  // namespace

constinit const Command export_command = {
    .name = "export",
    .words = "SOURCE OUT",
    .summary = "write a run or a checkpoint as a Hugging Face model directory",
    .options = options_of_export,
    .least_words = 2,
    .run = run_export,
    .more =
        "\nSOURCE is a run (its newest good checkpoint), a checkpoint, a model directory\n"
        "or an adapter directory: the adapter is then merged into its base model. OUT\n"
        "must not exist; after a failure there is no OUT. fp8 quantizes the layers'\n"
        "matrices in blocks of 128 x 128, for training LoRA beside them. A text model\n"
        "trained from a larger model, such as one that reads images, is put back into it:\n"
        "its other tensors are copied byte for byte, whatever --dtype says.\n",
};

}  // namespace tidepool
