// Pins host memory, so that devices copy from and to it at the full rate of their link.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <span>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// PinnedRange pins someone else's host memory while it lives.
class PinnedRange {
 public:
  static Result<std::unique_ptr<PinnedRange>> create(std::span<std::byte>);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  explicit PinnedRange(void* begin) : begin_(begin) {}
  void* begin_;
};

// PinnedMemory allocates a small amount of pinned memory.
class PinnedMemory {
 public:
  static Result<std::unique_ptr<PinnedMemory>> create(Bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::span<std::byte> memory() const { return memory_; }

 private:
  explicit PinnedMemory(std::span<std::byte> memory) : memory_(memory) {}
  std::span<std::byte> memory_;
};

}  // namespace tidepool
