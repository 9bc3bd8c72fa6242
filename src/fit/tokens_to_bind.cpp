#include "fit/tokens_to_bind.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "executor/sim/cost.h"

namespace tidepool {
namespace {

// Seconds of a resource: `fixed` per step, and `varying` for the plan's number of tokens.
struct Busy {
  double fixed = 0, varying = 0;
  std::string_view name;
  double most = 0;  // of one op, which gives the resource its name

  void add(double seconds, bool is_fixed, std::string_view of) {
    (is_fixed ? fixed : varying) += seconds;
    if (seconds > most) most = seconds, name = of;
  }
};

bool is_fixed(const Plan& plan, const Segment& body, const Op& op) {
  if (op.kind == OpKind::forward || op.kind == OpKind::backward || op.operands_count == 0) return false;
  if (op.kind == OpKind::gradient || is_update(op.kind) || op.kind == OpKind::norm) return true;
  const Kind kind = plan.chunk(body.operands_of(op)[0].first).kind;
  return is_persistent(kind) || kind == Kind::grad || kind == Kind::grad_accum;
}

// Parameters and gradients pass once per sweep.
double of_one_sweep(const Plan& plan, const Segment& body, const Op& op) {
  if (!is_movement(op.kind) || op.operands_count == 0) return 1;
  const Kind kind = plan.chunk(body.operands_of(op)[0].first).kind;
  const bool passes = kind == Kind::param || kind == Kind::grad || kind == Kind::grad_accum;
  return passes ? 1.0 / plan.sweeps : 1;
}

std::string_view resource_name(const Op& op) {
  switch (op.lane.kind) {
    case LaneKind::host:
      return "update";
    case LaneKind::disk_read:
    case LaneKind::disk_write:
      return "disk";
    default:
      return name(op.lane.kind);
  }
}

}  // namespace

TokensToBind tokens_to_bind(const Plan& plan, const ModelGraph& graph, const Machine& machine) {
  const CostModel cost(plan, graph, machine, {});
  const Segment& body = plan.segment(SegmentKind::body);
  const auto capacity = [&](u32 resource) {
    return resource == CostModel::disk_resource ? std::max(1.0, cost.disk_mixed_capacity())
                                                : cost.capacities()[resource];
  };
  Busy compute;
  std::vector<Busy> others(cost.capacities().size());
  for (const Op& op : body.ops) {
    const bool fixed = is_fixed(plan, body, op);
    const double share = of_one_sweep(plan, body, op);
    double longest = 0;
    for (const Demand& demand : cost.flow(body, op).demands) {
      const double seconds = share * demand.amount / capacity(demand.resource);
      longest = std::max(longest, seconds);
      if (op.lane.kind != LaneKind::compute) others[demand.resource].add(seconds, fixed, resource_name(op));
    }
    if (op.lane == LaneId{0, LaneKind::compute}) compute.add(longest, fixed, "compute");
  }
  const double tokens = static_cast<double>(graph.batch.rows()) * plan.micro_batches;
  TokensToBind out;
  for (const Busy& other : others) {
    const double behind = other.fixed - compute.fixed, gain = compute.varying - other.varying;
    if (behind <= 0 && gain >= 0) continue;
    const double from = gain > 0 ? behind / gain * tokens : std::numeric_limits<double>::infinity();
    if (from > out.tokens) out = {from, std::string(other.name)};
  }
  return out;
}

}  // namespace tidepool
