// CoresDevice makes a device of a pool's cores and of host memory: its copies stay within memory.
#pragma once

#include <memory>

#include "executor/device.h"
#include "io/arena.h"
#include "tidepool/core_pool.h"

namespace tidepool {

class CoresDevice final : public MeasuredDevice {
 public:
  // REQUIRES: the pool outlives the device.
  CoresDevice(CorePool&, std::unique_ptr<Arena> memory);

  // REQUIRES: the memory outlives the device.
  void set_host_memory(std::span<std::byte> host) { host_ = host; }
  // One line for people.
  const std::string& describe() const { return memory_->describe(); }

  const DeviceFacts& facts() const override { return facts_; }
  std::span<std::byte> memory() override { return memory_->memory(); }
  std::span<std::byte> host_memory() override { return host_; }
  Kernels& kernels() override { return *kernels_; }
  // Copies are cut into pieces of copy_piece_bytes, which the cores share.
  void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  Result<void> wait() override { return {}; }
  void finish_gradient(const float* accumulator, std::byte* grad, Precision, u64 elements) override;
  void update(const UpdateChunk&, const StateSlots&, Optim, const UpdateScalars*) override;

 private:
  void copy(std::span<std::byte> to, std::span<const std::byte> from);

  CorePool& pool_;
  const std::unique_ptr<Arena> memory_;
  const std::unique_ptr<Kernels> kernels_;
  const DeviceFacts facts_{.name = {}, .gpu = false, .has_bf16 = false};
  std::span<std::byte> host_;
};

// Opens the cores to be measured.
// REQUIRES: `memory` is a multiple of frame_alignment; pool and host memory outlive the device.
// Errors: as Arena::create().
Result<std::unique_ptr<MeasuredDevice>> open_cores(CorePool&, Bytes memory, std::span<std::byte> host_memory);

}  // namespace tidepool
