#include "executor/cpu/cores_device.h"

#include <algorithm>
#include <cstring>

#include "kernels/gradient/gradient.h"

namespace tidepool {

CoresDevice::CoresDevice(CorePool& pool, std::unique_ptr<Arena> memory)
    : pool_(pool), memory_(std::move(memory)), kernels_(create_cpu_kernels(pool)) {}

void CoresDevice::finish_gradient(const float* accumulator, std::byte* grad, Precision precision,
                                  u64 elements) {
  const float* const accumulators[] = {accumulator};
  tidepool::finish_gradient(accumulators, grad, precision, elements, pool_);
}

void CoresDevice::update(const UpdateChunk& chunk, const StateSlots& slots, Optim optim,
                         const UpdateScalars* scalars) {
  tidepool::update(chunk, slots, optim, *scalars, pool_);
}

void CoresDevice::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  parallel_for(
      pool_, Priority::high, static_cast<u32>(div_up(to.size(), copy_piece_bytes)), [&](u32 piece, u32) {
        const u64 begin = piece * copy_piece_bytes;
        std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, to.size() - begin));
      });
}

Result<std::unique_ptr<MeasuredDevice>> open_cores(CorePool& pool, Bytes memory,
                                                   std::span<std::byte> host_memory) {
  TRY_ASSIGN(auto arena, Arena::create({.name = "device", .bytes = memory, .pool = &pool}));
  auto cores = std::make_unique<CoresDevice>(pool, std::move(arena));
  cores->set_host_memory(host_memory);
  return std::unique_ptr<MeasuredDevice>(std::move(cores));
}

}  // namespace tidepool
