// Host memory that is pinned, so that devices copy from and to it at the rate of their link.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <span>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Host memory that is not ours, pinned while this lives.
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

// A little pinned memory of our own.
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
