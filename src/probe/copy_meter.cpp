#include <algorithm>
#include <cstring>
#include <thread>

#include "base/process/start_thread.h"
#include "io/arena.h"
#include "probe/meter.h"
#include "probe/timing.h"

namespace tidepool {
namespace {

constexpr u64 chunk_bytes_max = 64 * mib;

class CopyMeter final : public Meter {
 public:
  CopyMeter(CorePool& pool, const MeterOptions& options, std::unique_ptr<Arena> host,
            std::unique_ptr<Arena> device)
      : pool_(pool), options_(options), host_(std::move(host)), device_(std::move(device)) {}

  Result<void> measure(Rates& rates) override {
    rates.add("copies.h2d", "copies, host to device", SampleUnit::bytes_per_s, alone([&] { up(); }));
    rates.add("copies.d2h", "copies, device to host", SampleUnit::bytes_per_s, alone([&] { down(); }));
    TRY_ASSIGN(const double both_ways, both());
    rates.add("copies.both", "both at once, sum", SampleUnit::bytes_per_s, both_ways);
    return {};
  }

 private:
  u64 chunk_bytes() const { return host_->bytes().value / 2; }
  // The first halves go up, the second halves down: copies at the same time never overlap in memory.
  void up() { copy(host_->at(0), device_->at(0)); }
  void down() { copy(device_->at(chunk_bytes()), host_->at(chunk_bytes())); }

  void copy(const std::byte* from, std::byte* to) {
    const u64 bytes = chunk_bytes();
    parallel_for(pool_, Priority::high, static_cast<u32>(div_up(bytes, copy_piece_bytes)),
                 [&](u32 piece, u32) {
                   const u64 begin = piece * copy_piece_bytes;
                   std::memcpy(to + begin, from + begin, std::min(copy_piece_bytes, bytes - begin));
                 });
  }

  template <class Fn>
  double alone(Fn&& fn) {
    return rate_of(static_cast<double>(chunk_bytes()), options_.slice_seconds, fn);
  }

  // Both lanes work for the same time, so their rates add up.
  Result<double> both() {
    double down_rate = 0;
    TRY_ASSIGN(std::thread other, start_thread("tp-copy", [&] { down_rate = alone([&] { down(); }); }));
    const double up_rate = alone([&] { up(); });
    other.join();
    return up_rate + down_rate;
  }

  CorePool& pool_;
  const MeterOptions options_;
  const std::unique_ptr<Arena> host_, device_;
};

}  // namespace

Result<std::unique_ptr<Meter>> create_copy_meter(CorePool& pool, const MeterOptions& options) {
  const u64 bytes = 2 * std::min(chunk_bytes_max, round_up(options.memory.value / 4, frame_alignment));
  TRY_ASSIGN(auto host, Arena::create({.name = "probe", .bytes = Bytes{bytes}, .pool = &pool}));
  TRY_ASSIGN(auto device, Arena::create({.name = "probe", .bytes = Bytes{bytes}, .pool = &pool}));
  return std::unique_ptr<Meter>(
      std::make_unique<CopyMeter>(pool, options, std::move(host), std::move(device)));
}

}  // namespace tidepool
