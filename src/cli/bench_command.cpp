#include "cli/bench_command.h"

#include <fmt/format.h>

#include <array>

#include "config/nearest.h"

namespace tidepool {

namespace {

constexpr std::array options = {
    Option{"json", "", "one JSON object instead of a table"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
    Option{"parameters", "N", "adam: size of the arrays", "100e6"},
    Option{"repetitions", "N", "medians of so many interleaved runs", "9"},
    Option{"dir", "DIR", "disk: where to make the test file", "."},
    Option{"size", "SIZE", "disk: size of the test file", "1GiB"},
    Option{"block", "SIZE", "disk: bytes per request", "1MiB"},
    Option{"depth", "N", "disk: requests in flight", "32"},
    Option{"seconds", "X", "disk: duration of one run", "2"},
};

constexpr std::array<std::string_view, 3> parts = {"adam", "disk", "gemm"};

}  // namespace

std::span<const Option> bench_options() { return options; }

Result<void> run_bench(const Arguments& arguments) {
  const std::string& part = arguments.positional()[0];
  return Error{ErrorKind::usage,
               fmt::format("nothing called '{}' to measure{}; there are adam, disk and gemm", part,
                           did_you_mean(part, parts))};
}

}  // namespace tidepool
