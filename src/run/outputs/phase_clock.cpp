#include "run/outputs/phase_clock.h"

#include <algorithm>
#include <numeric>

namespace tidepool {
namespace {

double seconds_between(Nanos from, Nanos to) { return static_cast<double>((to - from).value) * 1e-9; }

}  // namespace

PhaseClock::PhaseClock(const Plan& plan, u64 steps) {
  const Segment& body = plan.segment(SegmentKind::body);
  u32 id = 0;
  while (id < body.ops.size() && body.ops[id].kind != OpKind::backward) ++id;
  first_backward_ = OpId{id};
  forward_seconds_.reserve(steps);
  backward_seconds_.reserve(steps);
}

void PhaseClock::completed(const Issue& issue, const Completion& completion) {
  if (issue.segment->kind == SegmentKind::body && issue.op == first_backward_) backward_ = completion.started;
  if (issue.get().kind != OpKind::norm) return;
  if (norm_.value != 0 && backward_ > norm_) {
    forward_seconds_.push_back(seconds_between(norm_, backward_));
    backward_seconds_.push_back(seconds_between(backward_, completion.finished));
  }
  norm_ = completion.finished;
}

std::vector<PhaseTime> PhaseClock::beside(const std::vector<PhaseBound>& bounds) const {
  if (forward_seconds_.empty()) return {};
  std::vector<u64> order(steps());
  std::iota(order.begin(), order.end(), u64{0});
  const auto middle = order.begin() + static_cast<i64>((steps() - 1) / 2);
  std::ranges::nth_element(order, middle, {},
                           [&](u64 i) { return forward_seconds_[i] + backward_seconds_[i]; });
  const double forward = forward_seconds_[*middle], backward = backward_seconds_[*middle];
  std::vector<PhaseTime> out;
  for (const PhaseBound& bound : bounds) {
    const double seconds = bounds.size() == 1         ? forward + backward
                           : bound.phase == "forward" ? forward
                                                      : backward;
    out.push_back({bound.phase, seconds, bound.seconds <= seconds ? bound.seconds : 0});
  }
  return out;
}

}  // namespace tidepool
