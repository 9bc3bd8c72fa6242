#include "cli/bench/measured_choice.h"

#include <fmt/format.h>

#include "base/text/value_text.h"
#include "executor/built_without_cuda.h"
#include "executor/devices.h"

namespace tidepool {
namespace {

constexpr u64 gpus_max = 64;

std::string why_none(u32 gpu) {
  if (gpu_backend() == nullptr) return fmt::format("{}: {}", built_without_cuda, how_to_build_with_cuda);
  return gpu_backend()->why_none({&gpu, 1});
}

}  // namespace

Result<MeasuredChoice> choose_measured(std::string_view device) {
  if (device == "cpu") return MeasuredChoice{};
  if (device == "auto") {
    // A program without CUDA measures the cores without a note, because nobody asked for a GPU.
    if (gpu_backend() == nullptr) return MeasuredChoice{};
    const std::string why = why_none(0);
    if (why.empty()) return MeasuredChoice{.gpu = 0};
    return MeasuredChoice{.note = fmt::format("the cores are measured: {}\n", why)};
  }
  u64 gpu = 0;
  const auto number = device.starts_with("cuda:") ? parse_integer(device.substr(5)) : Result<u64>(0);
  if (number) gpu = *number;
  if (!device.starts_with("cuda") || (device != "cuda" && !device.starts_with("cuda:")) || !number ||
      gpu > gpus_max)
    return Error{ErrorKind::usage, fmt::format("--device {}: must be auto, cpu, cuda or cuda:I", device)};
  if (const std::string why = why_none(static_cast<u32>(gpu)); !why.empty())
    return Error{ErrorKind::usage,
                 fmt::format("--device {}: {}; --device cpu measures the cores", device, why)};
  return MeasuredChoice{.gpu = static_cast<u32>(gpu)};
}

}  // namespace tidepool
