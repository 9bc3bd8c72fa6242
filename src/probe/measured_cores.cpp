#include <algorithm>
#include <array>
#include <cstring>

#include "io/arena.h"
#include "kernels/gradient/gradient.h"
#include "probe/measured_device.h"

namespace tidepool {
namespace {

class MeasuredCores final : public MeasuredDevice {
 public:
  MeasuredCores(CorePool& pool, std::unique_ptr<Arena> memory, std::unique_ptr<Arena> host)
      : pool_(pool), memory_(std::move(memory)), host_(std::move(host)), kernels_(create_cpu_kernels(pool)) {
    facts_.gpu = facts_.has_bf16 = false;
  }

  const MeasuredFacts& facts() const override { return facts_; }
  std::span<std::byte> memory() override { return memory_->memory(); }
  std::span<std::byte> host_memory() override { return host_->memory(); }
  Kernels& kernels() override { return *kernels_; }
  void finish_gradient(const float* accumulator, std::byte* grad, Precision precision,
                       u64 elements) override {
    const float* const accumulators[] = {accumulator};
    tidepool::finish_gradient(accumulators, grad, precision, elements, pool_);
  }
  void adamw(const AdamWChunk& chunk, Precision precision) override {
    const DecaySegment whole[] = {{0, chunk.elements, true}};
    AdamWChunk decayed = chunk;
    decayed.segments = whole;
    tidepool::adamw(decayed, precision, adamw_scalars({.learning_rate = 1e-3}, 100, 1.0, 1.0), pool_);
  }
  void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  Result<void> wait() override { return {}; }

 private:
  void copy(std::span<std::byte> to, std::span<const std::byte> from) {
    parallel_for(
        pool_, Priority::high, static_cast<u32>(div_up(to.size(), copy_piece_bytes)), [&](u32 piece, u32) {
          const u64 begin = piece * copy_piece_bytes;
          std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, to.size() - begin));
        });
  }

  CorePool& pool_;
  const std::unique_ptr<Arena> memory_, host_;
  const std::unique_ptr<Kernels> kernels_;
  MeasuredFacts facts_;
};

}  // namespace

Result<std::unique_ptr<MeasuredDevice>> measure_cores(const MeasureRequest& request) {
  const auto arena = [&](const char* name, Bytes bytes) {
    return Arena::create({.name = name, .bytes = bytes, .pool = &request.pool});
  };
  TRY_ASSIGN(auto memory, arena("device", request.memory));
  TRY_ASSIGN(auto host, arena("host", request.host_memory));
  return std::unique_ptr<MeasuredDevice>(
      std::make_unique<MeasuredCores>(request.pool, std::move(memory), std::move(host)));
}

}  // namespace tidepool
