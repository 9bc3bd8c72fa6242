#include "kernels/cuda/cuda_error.h"

#include <fmt/format.h>

namespace tidepool {
namespace {

struct Meaning {
  ErrorKind kind;
  const char* words;
};

Meaning meaning_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {
          ErrorKind::does_not_fit,
          "lower the budget that it belongs to, or end what else holds that memory (nvidia-smi lists it)"};
    case cudaErrorNoDevice:
      return {ErrorKind::usage, "no GPU was found: machine.executor=cpu trains on the CPU"};
    case cudaErrorInsufficientDriver:
      return {ErrorKind::usage,
              "the NVIDIA driver is older than this program's CUDA toolkit: update the driver, or build with "
              "an older "
              "toolkit; machine.executor=cpu trains on the CPU"};
    case cudaErrorNoKernelImageForDevice:
      return {ErrorKind::usage, "this build has no code for that GPU: build again on this machine"};
    case cudaErrorECCUncorrectable:
      return {ErrorKind::io,
              "the GPU's memory is damaged. The last checkpoint is good: look at nvidia-smi -q -d ECC, reset "
              "or change "
              "the GPU, then resume"};
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return {ErrorKind::io,
              "a kernel went wrong, by a defect of ours or of the GPU. The last checkpoint is good: resume "
              "from it, and "
              "report this if it happens again"};
    default:
      return {ErrorKind::io,
              "look at nvidia-smi and dmesg; a run that had begun goes on from its last checkpoint"};
  }
}

}  // namespace

Error cuda_error(cudaError_t error, const std::string& doing) {
  const Meaning meaning = meaning_of(error);
  return {meaning.kind, fmt::format("{}: CUDA says {} ({}); {}", doing, cudaGetErrorString(error),
                                    cudaGetErrorName(error), meaning.words)};
}

}  // namespace tidepool
