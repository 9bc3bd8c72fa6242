#include "io/simulated_medium.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/mix_bits.h"

namespace tidepool {
namespace {

// Draws numbers from a seed.
class Dice {
 public:
  explicit Dice(u64 seed) : state_(seed) {}
  u64 below(u64 limit) { return (state_ = mix_count(state_)) % limit; }

 private:
  u64 state_;
};

}  // namespace

SimulatedMedium::SimulatedMedium(const MediumOptions& options)
    : options_(options), bytes_(options.bytes.value) {
  if (options_.remembers_cache) durable_.resize(options.bytes.value);
}

void SimulatedMedium::stop_after(u64 changes) {
  CHECK(options_.remembers_cache && !stopped_, stopped_);
  changes_max_ = changes_ + changes;
}

void SimulatedMedium::go_on() {
  changes_max_ = none64;
  stopped_ = struck_ = false;
}

void SimulatedMedium::end_process(u64 seed) {
  if (struck_ && Dice(seed).below(2) == 0)
    cache_.pop_back();
  else if (struck_)
    put(cache_.back(), 0, cache_.back().bytes, bytes_);
  go_on();
}

void SimulatedMedium::flip(u64 bit) {
  const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
  bytes_[bit / 8] ^= mask;
  if (options_.remembers_cache) durable_[bit / 8] ^= mask;
}

bool SimulatedMedium::read(u64 offset, std::span<std::byte> out) const {
  CHECK(offset + out.size() <= bytes_.size(), offset, out.size());
  if (stopped_) return false;
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
}

bool SimulatedMedium::write(u64 offset, std::span<const std::byte> content) {
  CHECK(offset + content.size() <= bytes_.size(), offset, content.size());
  if (stopped_) return false;
  const Change change{.offset = offset, .bytes = content.size(), .content = contents_.size()};
  if (options_.remembers_cache) {
    contents_.insert(contents_.end(), content.begin(), content.end());
    cache_.push_back(change);
  }
  if (strikes(true)) return false;
  std::memcpy(bytes_.data() + offset, content.data(), content.size());
  return true;
}

bool SimulatedMedium::clear(u64 offset, u64 bytes) {
  CHECK(offset + bytes <= bytes_.size(), offset, bytes);
  if (stopped_) return false;
  if (options_.remembers_cache) cache_.push_back({.offset = offset, .bytes = bytes});
  if (strikes(true)) return false;
  std::fill_n(bytes_.begin() + static_cast<i64>(offset), bytes, std::byte{0});
  return true;
}

bool SimulatedMedium::flush() {
  if (stopped_ || strikes(false)) return false;
  if (!options_.flushes) return true;
  for (const Change& change : cache_)
    std::memcpy(durable_.data() + change.offset, bytes_.data() + change.offset, change.bytes);
  cache_.clear();
  contents_.clear();
  return true;
}

bool SimulatedMedium::strikes(bool in_cache) {
  stopped_ = changes_ == changes_max_;
  struck_ = stopped_ && in_cache;
  if (!stopped_) ++changes_;
  return stopped_;
}

void SimulatedMedium::put(const Change& change, u64 begin, u64 bytes, std::vector<std::byte>& to) const {
  std::byte* const at = to.data() + change.offset + begin;
  if (change.content == none64)
    std::memset(at, 0, bytes);
  else
    std::memcpy(at, contents_.data() + change.content + begin, bytes);
}

// Changes in the cache are kept, lost or torn; how often each happens differs from cut to cut, so that some
// cuts lose all but one and some keep all but one.
void SimulatedMedium::cut_power(u64 seed) {
  CHECK(options_.remembers_cache, seed);
  Dice dice(seed);
  const u64 unit = dice.below(2) == 0 ? sector_bytes : frame_alignment;
  const u64 torn_in_8 = dice.below(9), kept_in_8 = dice.below(9);
  if (dice.below(2) == 0)
    for (u64 i = cache_.size(); i > 1; --i) std::swap(cache_[i - 1], cache_[dice.below(i)]);
  for (const Change& change : cache_) {
    const bool torn = dice.below(8) < torn_in_8;
    if (!torn) {
      if (dice.below(8) < kept_in_8) put(change, 0, change.bytes, durable_);
      continue;
    }
    for (u64 at = 0; at < change.bytes; at += unit)
      if (dice.below(2) == 0) put(change, at, std::min(unit, change.bytes - at), durable_);
  }
  cache_.clear();
  contents_.clear();
  bytes_ = durable_;
  go_on();
}

}  // namespace tidepool
