#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text/nearest.h"
#include "cli/bench/bench.h"
#include "cli/bench/bench_device.h"
#include "cli/bench/bench_disk.h"
#include "cli/bench/measured_choice.h"
#include "cli/command.h"
#include "report/print_text.h"

namespace tidepool {

namespace {

constexpr std::array options_of_bench = {
    Option{"json", "", "one JSON object instead of a table"},
    Option{"repetitions", "N", "take medians of N interleaved runs: 9, disk 5"},
    Option{"device", "DEVICE", "attention, copy, gemm: auto, cpu, cuda, cuda:I", "auto"},
    Option{"threads", "N", "all but disk: worker threads; 0 one per core", "0"},
    Option{"parameters", "N", "adam: length of the arrays", "100e6"},
    Option{"dir", "DIR", "disk: where to make the test file", "."},
    Option{"size", "SIZE", "disk: size of the test file", "4GiB"},
    Option{"block", "SIZE", "disk: bytes given to the kernel at a time", "1MiB"},
    Option{"depth", "N", "disk: blocks in flight", "32"},
    Option{"seconds", "X", "disk: duration of one measurement", "2"},
    Option{"io", "BACKEND", "disk: auto, io_uring or threads", "auto"},
};

constexpr std::array<std::string_view, 5> parts = {"adam", "attention", "copy", "disk", "gemm"};
constexpr std::array<std::string_view, 3> backends = {"auto", "io_uring", "threads"};  // like DiskBackend

// RETURNS: a whole number of at least `least` that fits u32; `preset` if the option is not given.
Result<u32> count_of(const Arguments& arguments, std::string_view name, u32 preset, u32 least = 1) {
  if (!arguments.has(name)) return preset;
  TRY_ASSIGN(const u64 value, arguments.integer(name));
  if (value < least || value > none) return usage_error(fmt::format("--{}: {} is out of range", name, value));
  return static_cast<u32>(value);
}

Result<void> run_bench_disk(const Arguments& arguments) {
  BenchDiskOptions out{.json = arguments.has("json"), .dir = arguments.text("dir")};
  TRY_ASSIGN(out.size, arguments.size("size"));
  TRY_ASSIGN(out.block, arguments.size("block"));
  TRY_ASSIGN(out.depth, count_of(arguments, "depth", out.depth));
  TRY_ASSIGN(out.seconds, arguments.real("seconds"));
  TRY_ASSIGN(out.repetitions, count_of(arguments, "repetitions", out.repetitions));
  const auto backend = std::ranges::find(backends, arguments.text("io"));
  if (backend == backends.end()) return usage_error("--io: must be auto, io_uring or threads");
  out.backend = static_cast<DiskBackend>(backend - backends.begin());
  return bench_disk(out);
}

Result<BenchOptions> compute_options(const Arguments& arguments) {
  BenchOptions out{.json = arguments.has("json"), .device = arguments.text("device")};
  TRY_ASSIGN(out.threads, count_of(arguments, "threads", 0, 0));
  TRY_ASSIGN(out.parameters, arguments.integer("parameters"));
  TRY_ASSIGN(out.repetitions, count_of(arguments, "repetitions", out.repetitions));
  if (out.parameters == 0) return usage_error("--parameters: must be at least 1");
  return out;
}

// Benchmarks matrix products: on a GPU those of large models, on the cores against plain use of the library.
Result<void> bench_products(const BenchOptions& options) {
  TRY_ASSIGN(const MeasuredChoice choice, choose_measured(options.device));
  if (!choice.note.empty()) print_text(stderr, "tidepool: {}", choice.note);
  return choice.gpu ? bench_gpu_gemm(options, *choice.gpu) : bench_gemm(options);
}

Result<void> run_bench(const Arguments& arguments) {
  const std::string& part = arguments.positional()[0];
  if (arguments.text("device") != "auto" && (part == "adam" || part == "disk"))
    return usage_error(fmt::format(
        "--device is for attention, copy and gemm; bench {} measures the host: leave --device out", part));
  if (part == "disk") return run_bench_disk(arguments);
  if (std::ranges::find(parts, part) == parts.end())
    return usage_error(
        fmt::format("no benchmark is called '{}'{}; there are adam, attention, copy, disk and gemm", part,
                    did_you_mean(part, parts)));
  TRY_ASSIGN(const BenchOptions compute, compute_options(arguments));
  if (part == "adam") return bench_adam(compute);
  if (part == "attention") return bench_attention(compute);
  return part == "copy" ? bench_copy(compute) : bench_products(compute);
}

}  // namespace

constinit const Command bench_command = {
    .name = "bench",
    .words = "adam|attention|copy|disk|gemm",
    .summary = "measure one part against its limit",
    .options = options_of_bench,
    .least_words = 1,
    .run = run_bench,
};

}  // namespace tidepool
