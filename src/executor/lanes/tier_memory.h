// TierMemory maps frames to memory: one span per tier. HighWater tracks how much of each tier was used.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tidepool/plan.h"

namespace tidepool {

class TierMemory {
 public:
  TierMemory(std::vector<std::span<std::byte>> devices, std::span<std::byte> host)
      : devices_(std::move(devices)), host_(host) {}

  // A frame outside its arena is our bug: the planner proves that budgets hold.
  std::span<std::byte> at(const Frame& frame) const {
    CHECK(frame.tier != Tier::disk && frame.device < devices_.size(), static_cast<u32>(frame.tier),
          frame.device);
    const std::span<std::byte> arena = frame.tier == Tier::device ? devices_[frame.device] : host_;
    CHECK(frame.end() <= arena.size(), name(frame.tier), frame.offset, frame.bytes.value, arena.size());
    return arena.subspan(frame.offset, frame.bytes.value);
  }

  bool in_host(std::span<const std::byte> memory) const {
    return memory.data() >= host_.data() && memory.data() + memory.size() <= host_.data() + host_.size();
  }

 private:
  const std::vector<std::span<std::byte>> devices_;
  const std::span<std::byte> host_;
};

// HighWater is the highest frame end that an issued op named, on any device.
// THREADS: the engine's thread only.
class HighWater {
 public:
  void touch(const Frame& frame) {
    u64& top = top_[static_cast<u32>(frame.tier)];
    if (frame.end() > top) top = frame.end();
  }
  Bytes of(Tier tier) const { return Bytes{top_[static_cast<u32>(tier)]}; }

 private:
  std::array<u64, tier_count> top_{};
};

}  // namespace tidepool
