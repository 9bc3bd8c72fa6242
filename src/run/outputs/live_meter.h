// LiveMeter computes the live view from completed ops: how busy each lane is and how full each tier is. It
// reads no clock, and allocates no memory while a run trains.
#pragma once

#include <array>
#include <vector>

#include "engine/engine.h"
#include "report/terminal.h"

namespace tidepool {

class LiveMeter {
 public:
  explicit LiveMeter(const Plan&);

  void segment_started(const SegmentRun&);
  void completed(const Issue&, const Completion&);
  // RETURNS: each lane's busy share of the time between the last two renewals, and each tier's fill now.
  // Renews the shares if the last renewal was at least window_seconds ago.
  const LiveState& at(double now_seconds);

 private:
  static constexpr double window_seconds = 0.5;
  using PerTier = std::array<i64, tier_count>;

  void count_memory();

  const Plan& plan_;
  PerTier at_start_{};           // bytes in use when a body follows a body
  std::vector<PerTier> change_;  // [ops of the body] change in bytes when the op completes
  PerTier used_{};
  bool in_body_ = false;
  std::array<Nanos, lane_kind_count> busy_{};  // summed over all devices
  std::array<std::array<Nanos, lane_kind_count>, devices_max> busy_until_{};
  std::array<bool, lane_kind_count> worked_{};
  double renewed_at_ = -1;
  LiveState state_;
};

}  // namespace tidepool
