#include "executor/cuda/cuda_memory.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_error.h"

namespace tidepool {

Result<std::unique_ptr<PinnedRange>> PinnedRange::create(std::span<std::byte> memory) {
  TRY_CUDA(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable),
           fmt::format("pinning {} MiB of host memory", memory.size() / mib));
  return std::unique_ptr<PinnedRange>(new PinnedRange(memory.data()));
}

PinnedRange::~PinnedRange() { cudaHostUnregister(begin_); }

Result<std::unique_ptr<PinnedMemory>> PinnedMemory::create(Bytes bytes) {
  void* begin = nullptr;
  TRY_CUDA(cudaHostAlloc(&begin, bytes.value, cudaHostAllocPortable),
           fmt::format("taking {} bytes of pinned host memory", bytes.value));
  return std::unique_ptr<PinnedMemory>(new PinnedMemory({static_cast<std::byte*>(begin), bytes.value}));
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(memory_.data()); }

}  // namespace tidepool
