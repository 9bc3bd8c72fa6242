#include "kernels/cuda/cuda_error.h"

#include <fmt/format.h>

namespace tidepool {
namespace {

// A number, because toolkits before 13 have no name for it.
constexpr int error_contained = 226;

struct Meaning {
  ErrorKind kind;
  const char* words;
};

constexpr Meaning out_of_memory{ErrorKind::does_not_fit,
                                "lower the budget that it belongs to, or end other programs that hold that "
                                "memory (nvidia-smi lists them)"};
constexpr Meaning no_gpu{ErrorKind::usage, "no GPU was found"};
constexpr Meaning old_driver{
    ErrorKind::usage,
    "the NVIDIA driver is older than this program's CUDA toolkit: update the driver, or build with an older "
    "toolkit"};
constexpr Meaning no_code{ErrorKind::usage,
                          "this build has no code for that GPU: build again on this machine"};
constexpr Meaning broken_memory{
    ErrorKind::io,
    "the GPU's memory is damaged. The last checkpoint is good: look at nvidia-smi -q -d ECC, reset or change "
    "the GPU, then resume"};
constexpr Meaning broken_gpu{
    ErrorKind::io,
    "the GPU or its link has failed. The last checkpoint is good: look at nvidia-smi -q -d ECC and at dmesg "
    "for lines with Xid, reset the GPU (nvidia-smi -r) or reboot, then resume"};
constexpr Meaning gpu_or_us{
    ErrorKind::io,
    "a kernel went wrong, by a defect of ours or of the GPU. The last checkpoint is good: resume from it, "
    "and report this if it happens again"};
constexpr Meaning our_bug{ErrorKind::io,
                          "a kernel of ours has a bug: report this, with the command that was "
                          "run. The last checkpoint is good"};
constexpr Meaning took_too_long{
    ErrorKind::io,
    "the driver ended a kernel that held up a display: train on a GPU without a display, or end the desktop "
    "(systemctl isolate multi-user), then resume from the last checkpoint"};
constexpr Meaning other{ErrorKind::io,
                        "look at nvidia-smi and dmesg; resume a run that had begun from its last checkpoint"};

Meaning meaning_of(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case cudaErrorMemoryAllocation:
      return out_of_memory;
    case cudaErrorNoDevice:
      return no_gpu;
    case cudaErrorInsufficientDriver:
      return old_driver;
    case cudaErrorNoKernelImageForDevice:
      return no_code;
    case cudaErrorECCUncorrectable:
      return broken_memory;
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case error_contained:
      return broken_gpu;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return gpu_or_us;
    case cudaErrorAssert:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
      return our_bug;
    case cudaErrorLaunchTimeout:
      return took_too_long;
    default:
      return other;
  }
}

}  // namespace

Error cuda_error(cudaError_t error, const std::string& doing) {
  const Meaning meaning = meaning_of(error);
  return {meaning.kind, fmt::format("{}: CUDA says {} ({}); {}", doing, cudaGetErrorString(error),
                                    cudaGetErrorName(error), meaning.words)};
}

}  // namespace tidepool
