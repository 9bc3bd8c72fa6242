// What the live view shows, from the ops that complete: no clock, no memory taken while it runs.
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
  // Shares of the time since they were last renewed, at least window_seconds ago, and what lies in each tier
  // now.
  const LiveState& at(double now_seconds);

 private:
  static constexpr double window_seconds = 0.5;
  using PerTier = std::array<i64, tier_count>;

  void count_memory();

  const Plan& plan_;
  PerTier at_start_{};           // bytes in use when a body follows a body
  std::vector<PerTier> change_;  // [ops of the body] bytes more (or less) once it has completed
  PerTier used_{};
  bool in_body_ = false;
  std::array<Nanos, lane_kind_count> busy_{};  // of all devices together
  std::array<std::array<Nanos, lane_kind_count>, devices_max> busy_until_{};
  std::array<bool, lane_kind_count> worked_{};
  double renewed_at_ = -1;
  LiveState state_;
};

}  // namespace tidepool
