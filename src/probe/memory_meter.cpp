#include <fmt/format.h>

#include <algorithm>

#include "io/arena.h"
#include "kernels/checksum/checksum.h"
#include "probe/meter.h"
#include "probe/timing.h"
#include "probe/update_load.h"

namespace tidepool {
namespace {

constexpr u64 hashed_chunk_bytes = 64 * mib;  // as a large chunk
constexpr u64 hashed_block_bytes = checksum_block_elements * sizeof(float);
constexpr u64 state_bytes_per_parameter = 14;  // bf16: gradient, parameter, remainder, two moments

class MemoryMeter final : public Meter {
 public:
  MemoryMeter(CorePool& pool, const MeterOptions& options, std::unique_ptr<UpdateLoad> update,
              std::unique_ptr<Arena> hashed)
      : pool_(pool),
        options_(options),
        update_(std::move(update)),
        hashed_(std::move(hashed)),
        hashes_(div_up(hashed_->bytes().value, hashed_block_bytes)) {}

  Result<void> measure(Rates& rates) override {
    const double slice = options_.slice_seconds;
    rates.add("host.memory_rate", "scaling in place", SampleUnit::bytes_per_s,
              rate_of(static_cast<double>(update_->scale_bytes()), slice, [&] { update_->scale(); }));
    rates.add(host_update_key(), fmt::format("{}, bf16, with checksums", optimizer(measured_rule).title),
              SampleUnit::bytes_per_s, rate_of(static_cast<double>(update_->update_bytes()), slice, [&] {
                update_->update_hashed();
              }));
    rates.add("host.checksum", "checksums", SampleUnit::bytes_per_s,
              rate_of(static_cast<double>(hashed_->bytes().value), slice, [&] {
                (void)chunk_checksum(hashed_->memory(), hashed_block_bytes, 1, hashes_, pool_);
              }));
    return {};
  }

 private:
  CorePool& pool_;
  const MeterOptions options_;
  const std::unique_ptr<UpdateLoad> update_;
  const std::unique_ptr<Arena> hashed_;
  std::vector<u64> hashes_;
};

}  // namespace

Result<std::unique_ptr<Meter>> create_memory_meter(CorePool& pool, const MeterOptions& options) {
  const u64 parameters = options.memory.value / state_bytes_per_parameter;
  const u64 hashed_bytes = std::min(hashed_chunk_bytes, round_up(options.memory.value / 2, frame_alignment));
  TRY_ASSIGN(auto update, UpdateLoad::create(Precision::bf16, measured_rule, parameters, pool));
  TRY_ASSIGN(auto hashed, Arena::create({.name = "probe", .bytes = Bytes{hashed_bytes}, .pool = &pool}));
  return std::unique_ptr<Meter>(
      std::make_unique<MemoryMeter>(pool, options, std::move(update), std::move(hashed)));
}

}  // namespace tidepool
