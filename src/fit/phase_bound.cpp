// Phases sums the work of each phase per resource, and bounds the bytes that can move to the other phase.
#include "fit/phase_bound.h"

#include <algorithm>
#include <array>
#include <limits>

#include "planner/bound/lower_bound.h"

namespace tidepool {
namespace {

enum : u32 { forward_phase, backward_phase, phases_max };
using PerPhase = std::array<double, phases_max>;

// Load of one resource, in its units.
struct Load {
  PerPhase fixed{};    // computing: cannot move to another phase
  PerPhase movable{};  // movement: may happen early or late, as far as memory can hold the content
  double bytes = 0;    // bytes of the movable work
  std::string_view name = "memory";
  double most = 0;  // most of one op, which gives the load its name
};

struct Split {
  PerPhase seconds{};
  PerPhase work{};  // seconds of the resource alone
  double sum() const { return seconds[forward_phase] + seconds[backward_phase]; }
};

bool computes(OpKind kind) {
  return !is_movement(kind) && !is_collective(kind) && kind != OpKind::load_batch;
}

// Visit says how a phase uses a chunk.
struct Visit {
  bool any = false;
  bool finds = false;   // reads content from before the phase
  bool leaves = false;  // leaves content that differs from the content it found

  void add(Access access) {
    if (!any) finds = reads(access);
    any = true;
    leaves |= writes(access);
  }
};

class Phases {
 public:
  explicit Phases(const PhaseBoundInput& in)
      : in_(in),
        body_(in.plan.segment(SegmentKind::body)),
        cost_(in.plan, in.graph, in.machine, in.seconds),
        loads_(cost_.capacities().size()) {
    find_uses();
    count_needs();
    const auto least = lower_bound(in.plan, in.graph), planned = link_bytes(in.plan, SegmentKind::body);
    for (u32 l = 0; l < link_count; ++l)
      needed_of_link_[l] =
          planned[l].value == 0
              ? 1.0
              : std::min(1.0, static_cast<double>(least[l].value) / static_cast<double>(planned[l].value));
    for (u32 id = 0; id < body_.ops.size(); ++id) add(id);
  }

  std::vector<PhaseBound> bounds() const {
    Split best;
    std::string_view binds = "compute";
    for (u32 r = 0; r < loads_.size(); ++r) {
      const Split split = split_of(r);
      if (split.sum() <= best.sum()) continue;
      best = split;
      binds = loads_[r].name;
    }
    if (!in_.plan.clipping) return {{"step", best.sum(), std::string(binds)}};
    std::vector<PhaseBound> out;
    for (u32 p = 0; p < phases_max; ++p) {
      const bool by_movement = best.work[p] >= best.seconds[p] * (1 - 1e-9);
      out.push_back({p == forward_phase ? "forward" : "backward", best.seconds[p],
                     std::string(by_movement ? binds : fixed_name(p))});
    }
    return out;
  }

 private:
  // Records the ops that compute with each chunk, in order. A movement down belongs to the phase of the last
  // of them before it, a movement up to the phase of the next.
  void find_uses() {
    uses_.resize(in_.plan.chunks.size());
    first_backward_ = static_cast<u32>(body_.ops.size());
    for (u32 id = 0; id < body_.ops.size(); ++id) {
      const Op& op = body_.ops[id];
      if (op.kind == OpKind::backward) first_backward_ = std::min(first_backward_, id);
      if (!computes(op.kind)) continue;
      for (const Operand& o : body_.operands_of(op))
        for (u32 c = 0; c < o.count; ++c) {
          std::vector<u32>& of = uses_[index(o.first) + c];
          if (of.empty() || of.back() != id) of.push_back(id);
        }
    }
  }

  // Content that memory holds when a phase begins or ends need not be moved in that phase, but memory can
  // hold only so much. Activations and accumulators that live within a phase are left out.
  void count_needs() {
    for (u32 c = 0; c < uses_.size(); ++c) {
      const Chunk& chunk = in_.plan.chunk(ChunkId{c});
      if (!is_persistent(chunk) && chunk.kind != Kind::grad && chunk.kind != Kind::grad_accum) continue;
      std::array<Visit, phases_max> visits;
      for (u32 id : uses_[c]) visits[phase_at(id)].add(access_of(body_.ops[id], ChunkId{c}));
      for (u32 p = 0; p < phases_max; ++p) {
        const Visit& next = visits[1 - p].any ? visits[1 - p] : visits[p];
        u32 times = 0;
        if (visits[p].finds) ++times;
        if (visits[p].leaves && next.finds) ++times;
        needs_[p] += times * static_cast<double>(chunk.bytes.value);
      }
    }
  }

  Access access_of(const Op& op, ChunkId chunk) const {
    for (const Operand& o : body_.operands_of(op))
      if (index(chunk) >= index(o.first) && index(chunk) < index(o.first) + o.count) return o.access;
    return Access::read;
  }

  u32 phase_at(u32 id) const {
    return !in_.plan.clipping || id < first_backward_ ? forward_phase : backward_phase;
  }

  u32 phase_of(u32 id) const {
    const Op& op = body_.ops[id];
    if (computes(op.kind) || op.operands_count == 0) return phase_at(id);
    const std::vector<u32>& of = uses_[index(body_.operands_of(op)[0].first)];
    if (of.empty()) return phase_at(id);
    const bool down =
        op.lane.kind == LaneKind::d2h || op.kind == OpKind::write || op.kind == OpKind::reduce_scatter;
    const auto next = std::lower_bound(of.begin(), of.end(), id);
    if (down) return phase_at(next == of.begin() ? of.back() : *(next - 1));
    return phase_at(next == of.end() ? of.front() : *next);
  }

  void add(u32 id) {
    const Op& op = body_.ops[id];
    if (op.kind == OpKind::load_batch || op.persists) return;  // a plan need not commit a step
    const Flow flow = cost_.flow(body_, op);
    const u32 phase = phase_of(id);
    const double share = computes(op.kind) ? computed_share(op) : needed_share(op);
    for (const Demand& demand : flow.demands) {
      Load& load = loads_[demand.resource];
      const double amount = demand.amount * share;
      (computes(op.kind) ? load.fixed : load.movable)[phase] += amount;
      if (!computes(op.kind) && op.operands_count > 0)
        load.bytes += share * static_cast<double>(body_.operands_of(op)[0].frame.bytes.value);
      name_load(load, op, amount);
    }
  }

  // The op that needs most of a resource gives the load its name.
  static void name_load(Load& load, const Op& op, double amount) {
    if (amount <= load.most) return;
    load.most = amount;
    switch (op.lane.kind) {
      case LaneKind::compute:
        load.name = "compute";
        break;
      case LaneKind::host:
        load.name = "update";
        break;
      case LaneKind::disk_read:
      case LaneKind::disk_write:
        load.name = "disk";
        break;
      default:
        load.name = tidepool::name(op.lane.kind);
    }
  }

  double computed_share(const Op& op) const {
    if (in_.recompute || op.kind != OpKind::backward || op.block >= in_.graph.blocks.size()) return 1;
    for (const Operand& o : body_.operands_of(op))
      if (in_.plan.chunk(o.first).kind == Kind::kept) return 1;
    const BlockSeconds& block = cost_.block(op.block);
    return block.backward_recompute > 0 ? std::min(1.0, block.backward / block.backward_recompute) : 1;
  }

  // Movement beyond the least of its link is a choice of the plan, so it does not count.
  double needed_share(const Op& op) const {
    switch (op.lane.kind) {
      case LaneKind::h2d:
        return needed_of_link_[static_cast<u32>(LinkKind::h2d)];
      case LaneKind::d2h:
        return needed_of_link_[static_cast<u32>(LinkKind::d2h)];
      case LaneKind::disk_read:
        return needed_of_link_[static_cast<u32>(LinkKind::disk_read)];
      case LaneKind::disk_write:
        return needed_of_link_[static_cast<u32>(LinkKind::disk_write)];
      default:
        return 1;
    }
  }

  double capacity(u32 resource) const {
    if (resource == CostModel::disk_resource) return std::max(1.0, cost_.disk_mixed_capacity());
    return cost_.capacities()[resource];
  }

  double fixed_seconds(u32 phase) const {
    double most = 0;
    for (u32 r = 0; r < loads_.size(); ++r) most = std::max(most, loads_[r].fixed[phase] / capacity(r));
    return most;
  }

  std::string_view fixed_name(u32 phase) const {
    double most = 0;
    std::string_view name = "compute";
    for (u32 r = 0; r < loads_.size(); ++r)
      if (loads_[r].fixed[phase] / capacity(r) > most)
        most = loads_[r].fixed[phase] / capacity(r), name = loads_[r].name;
    return name;
  }

  // Bytes of all memory beyond the least working sets.
  double memory() const {
    double bytes = 0;
    for (u32 t = 0; t < 2; ++t) {
      const std::vector<u64>& set = in_.plan.least_set[t];
      const u64 needed = set.empty() ? 0 : *std::min_element(set.begin(), set.end());
      const u64 budget = in_.plan.tiers[t].budget.value;
      const double count = static_cast<Tier>(t) == Tier::device ? in_.plan.devices : 1;
      bytes += count * static_cast<double>(budget - std::min(budget, needed));
    }
    return bytes;
  }

  // Movable work of a phase that no plan can leave to the other phase.
  double stays(u32 r, u32 phase) const {
    const Load& load = loads_[r];
    if (!in_.plan.clipping) return load.movable[phase];
    if (r != CostModel::disk_resource || load.bytes == 0) return 0;
    const double of_bytes = (load.movable[0] + load.movable[1]) / load.bytes;
    return std::clamp((needs_[phase] - 2 * memory()) * of_bytes, 0.0, load.movable[phase]);
  }

  // One resource beside the computing: its movable work is split between the phases in the best way.
  Split split_of(u32 r) const {
    const Load& load = loads_[r];
    const PerPhase fixed = {fixed_seconds(forward_phase), fixed_seconds(backward_phase)};
    const double lowest = stays(r, backward_phase) - load.movable[backward_phase],
                 highest = load.movable[forward_phase] - stays(r, forward_phase);
    const auto split_at = [&](double shift) {
      Split split;
      split.work = {(load.fixed[0] + load.movable[0] - shift) / capacity(r),
                    (load.fixed[1] + load.movable[1] + shift) / capacity(r)};
      for (u32 p = 0; p < phases_max; ++p) split.seconds[p] = std::max(fixed[p], split.work[p]);
      return split;
    };
    // The sum is convex, and has bends at points where a phase's movement takes as long as its computing.
    const double bends[] = {0.0, lowest, highest,
                            load.fixed[0] + load.movable[0] - fixed[forward_phase] * capacity(r),
                            fixed[backward_phase] * capacity(r) - load.fixed[1] - load.movable[1]};
    Split best = split_at(0);
    for (double bend : bends) {
      const Split split = split_at(std::clamp(bend, lowest, highest));
      if (split.sum() < best.sum() * (1 - 1e-9)) best = split;
    }
    return best;
  }

  const PhaseBoundInput& in_;  // valid during the call only
  const Segment& body_;
  const CostModel cost_;
  std::vector<Load> loads_;             // by resource
  std::vector<std::vector<u32>> uses_;  // [chunk] ascending ops of the body
  PerPhase needs_{};  // bytes to and from the disk if memory kept nothing from phase to phase
  std::array<double, link_count> needed_of_link_{};
  u32 first_backward_ = 0;
};

}  // namespace

std::vector<PhaseBound> phase_bounds(const PhaseBoundInput& in) { return Phases(in).bounds(); }

}  // namespace tidepool
