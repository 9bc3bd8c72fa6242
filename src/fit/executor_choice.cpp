#include "fit/executor_choice.h"

#include <fmt/format.h>

#include "executor/built_without_cuda.h"
#include "executor/devices.h"

namespace tidepool {
namespace {

// Empty if the GPUs can be used.
std::string why_no_gpus(const Config& config) {
  if (gpu_backend() == nullptr) return fmt::format("{}: {}", built_without_cuda, how_to_build_with_cuda);
  const std::vector<u32> gpus = config.machine.gpus();
  std::string why = gpu_backend()->why_none(gpus);
  const bool exchanges = gpus.size() > 1 && config.machine.parallel == Parallel::data;
  if (!why.empty() || !exchanges) return why;
  const Result<std::string> library = gpu_backend()->exchange();
  return library ? std::string() : library.error().message;
}

}  // namespace

bool may_exchange(const Config& config) {
  return config.machine.gpus().empty() || gpu_backend() == nullptr || gpu_backend()->exchange().has_value();
}

Result<void> check_gpus(const Config& config) {
  if (config.machine.gpus().empty()) return {};
  const std::string why = why_no_gpus(config);
  if (why.empty()) return {};
  return Error{ErrorKind::usage,
               fmt::format("machine.executor={}: {}; machine.executor=cpu trains on the cores",
                           config.machine.executor, why)};
}

Result<void> check_precision(const Config& config) {
  const std::vector<u32> gpus = config.machine.gpus();
  if (gpus.empty() || gpu_backend() == nullptr) return {};
  const std::string why_not = gpu_backend()->why_not_in(config.train.precision, gpus);
  if (!why_not.empty()) return Error{ErrorKind::usage, why_not};
  return {};
}

Result<void> check_executor(const Config& config) {
  TRY(check_gpus(config));
  return check_precision(config);
}

// A GPU that lacks the precision is an error, not a reason to use the CPU: its owner wants to know how to use
// it.
Result<std::string> resolve_executor(Config& config) {
  std::string& executor = config.machine.executor;
  if (executor != "auto") return std::string();
  executor = "cuda";
  const std::string why_none = why_no_gpus(config);
  if (why_none.empty()) {
    TRY(check_precision(config));
    return std::string("machine.executor=auto: training on the first GPU");
  }
  executor = "cpu";
  return "machine.executor=auto: training on the cores; " +
         (gpu_backend() == nullptr ? built_without_cuda : why_none);
}

}  // namespace tidepool
