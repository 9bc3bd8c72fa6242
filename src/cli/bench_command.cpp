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
    Option{"tokens", "N", "attention: of one sequence, in tiles; 0 a preset", "0"},
    Option{"threads", "N", "all but disk: worker threads; 0 one per core", "0"},
    Option{"parameters", "N", "update: length of the arrays", "100e6"},
    Option{"optim", "RULE", "update: the rule, as train.optim names it", "adamw_torch"},
    Option{"dir", "DIR", "disk: where to make the test file", "."},
    Option{"size", "SIZE", "disk: size of the test file", "4GiB"},
    Option{"block", "SIZE", "disk: bytes given to the kernel at a time", "1MiB"},
    Option{"depth", "N", "disk: blocks in flight", "32"},
    Option{"seconds", "X", "disk: duration of one measurement", "2"},
    Option{"io", "BACKEND", "disk: auto, io_uring or threads", "auto"},
};

constexpr u32 attention_tokens_max = 1 << 20;
constexpr std::array<std::string_view, 3> backends = {"auto", "io_uring", "threads"};  // like DiskBackend

// RETURNS: --repetitions; `preset` if the option is not given.
Result<u32> repetitions_of(const Arguments& arguments, u32 preset) {
  return arguments.has("repetitions") ? arguments.count("repetitions", {.least = 1}) : Result<u32>(preset);
}

Result<void> run_bench_disk(const Arguments& arguments) {
  BenchDiskOptions out{.json = arguments.has("json"), .dir = arguments.text("dir")};
  TRY_ASSIGN(out.size, arguments.size("size"));
  TRY_ASSIGN(out.block, arguments.size("block"));
  TRY_ASSIGN(out.depth, arguments.count("depth", {.least = 1, .most = queue_depth_max}));
  TRY_ASSIGN(out.seconds, arguments.real("seconds"));
  TRY_ASSIGN(out.repetitions, repetitions_of(arguments, out.repetitions));
  const auto backend = std::ranges::find(backends, arguments.text("io"));
  if (backend == backends.end())
    return usage_error(fmt::format("--io: '{}' is not auto, io_uring or threads", arguments.text("io")));
  out.backend = static_cast<DiskBackend>(backend - backends.begin());
  return bench_disk(out);
}

Result<Optim> optim_of(const Arguments& arguments) {
  for (u32 i = 0; i < optim_count; ++i)
    if (arguments.text("optim") == optim_names[i]) return static_cast<Optim>(i);
  return usage_error(
      fmt::format("--optim: '{}' is none of {}", arguments.text("optim"), fmt::join(optim_names, ", ")));
}

Result<BenchOptions> compute_options(const Arguments& arguments) {
  BenchOptions out{.json = arguments.has("json"), .device = arguments.text("device")};
  TRY_ASSIGN(out.threads, arguments.count("threads", {.most = threads_max}));
  TRY_ASSIGN(out.parameters, arguments.integer("parameters"));
  TRY_ASSIGN(out.repetitions, repetitions_of(arguments, out.repetitions));
  TRY_ASSIGN(out.optim, optim_of(arguments));
  TRY_ASSIGN(out.tokens, arguments.count("tokens", {.most = attention_tokens_max}));
  if (out.parameters == 0) return usage_error("--parameters: 0 is too small; at least 1");
  return out;
}

// Benchmarks matrix products: on a GPU those of large models, on the cores against plain use of the library.
Result<void> bench_products(const BenchOptions& options) {
  TRY_ASSIGN(const MeasuredChoice choice, choose_measured(options.device));
  if (!choice.note.empty()) print_text(stderr, "tidepool: {}", choice.note);
  return choice.gpu ? bench_gpu_gemm(options, *choice.gpu) : bench_gemm(options);
}

template <Result<void> (*bench)(const BenchOptions&)>
Result<void> run_compute(const Arguments& arguments) {
  TRY_ASSIGN(const BenchOptions options, compute_options(arguments));
  return bench(options);
}

// Part is one benchmark, with the options that it uses.
struct Part {
  std::string_view name;
  std::span<const std::string_view> options;
  Result<void> (*run)(const Arguments&);
};

constexpr std::array<std::string_view, 5> options_of_update = {"json", "repetitions", "threads", "parameters",
                                                               "optim"};
constexpr std::array<std::string_view, 5> options_of_attention = {"json", "repetitions", "threads", "device",
                                                                  "tokens"};
constexpr std::array<std::string_view, 4> options_of_kernels = {"json", "repetitions", "threads", "device"};
constexpr std::array<std::string_view, 8> options_of_disk = {"json",  "repetitions", "dir",     "size",
                                                             "block", "depth",       "seconds", "io"};

constexpr std::array parts = {
    Part{"attention", options_of_attention, run_compute<bench_attention>},
    Part{"copy", options_of_kernels, run_compute<bench_copy>},
    Part{"disk", options_of_disk, run_bench_disk},
    Part{"gemm", options_of_kernels, run_compute<bench_products>},
    Part{"update", options_of_update, run_compute<bench_update>},
};

Result<void> run_bench(const Arguments& arguments) {
  const std::string& name = arguments.positional()[0];
  const auto part = std::ranges::find(parts, name, &Part::name);
  if (part == parts.end()) {
    std::vector<std::string_view> names;
    for (const Part& known : parts) names.push_back(known.name);
    return usage_error(fmt::format("no benchmark is called '{}'{}; there are {}", name,
                                   did_you_mean(name, names), fmt::join(names, ", ")));
  }
  TRY(check_form(arguments,
                 {.name = fmt::format("bench {}", name), .options = part->options, .words_max = 1}));
  return part->run(arguments);
}

}  // namespace

constinit const Command bench_command = {
    .name = "bench",
    .words = "attention|copy|disk|gemm|update",
    .summary = "measure one part against its limit",
    .options = options_of_bench,
    .least_words = 1,
    .run = run_bench,
    .launched = Command::Launched::each_runs,
};

}  // namespace tidepool
