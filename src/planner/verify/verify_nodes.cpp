#include "planner/verify/verify_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "planner/verify/verify.h"
#include "planner/verify/verify_units.h"

namespace tidepool {
namespace {

Error misfit(std::string message) {
  return {ErrorKind::internal, "plans of nodes refused: " + std::move(message) +
                                   ". This is a bug in the planner; please report it with config.yaml"};
}

std::string text(const NodeMessage& m) {
  std::string what(name(m.kind));
  if (m.window != none) what += fmt::format(" of window {} cut {}", m.window, m.cut);
  return fmt::format("{} from node {} to node {}", what, m.from, m.to);
}

std::string op_of_node(const Plan& plan, SegmentKind kind, u32 i) {
  return fmt::format("node {}'s {} op {} ({})", plan.node, name(kind), i,
                     name(plan.segment(kind).ops[i].kind));
}

class NodesVerifier {
 public:
  explicit NodesVerifier(std::span<const Plan> plans) : plans_(plans) {}

  Result<void> verify() {
    TRY(check_alike());
    for (u32 s = 0; s < segment_count; ++s) TRY(check_segment(static_cast<SegmentKind>(s)));
    return {};
  }

 private:
  Result<void> check_alike() const {
    const Plan& first = plans_.front();
    for (u32 n = 0; n < plans_.size(); ++n) {
      const Plan& plan = plans_[n];
      if (plan.node != n || plan.nodes != plans_.size())
        return misfit(
            fmt::format("plan {} of {} is of node {} of {}", n, plans_.size(), plan.node, plan.nodes));
      const auto shape = [](const Plan& p) {
        return std::tuple(p.precision, p.micro_batches, p.sweeps, p.devices, p.parallel, p.clipping);
      };
      if (shape(plan) != shape(first)) return misfit(fmt::format("node {} runs another step than node 0", n));
      if (plan.chunks != first.chunks) return misfit(fmt::format("node {} has other chunks than node 0", n));
    }
    return {};
  }

  Result<void> check_segment(SegmentKind kind) {
    const auto pairs = match(kind);
    if (!pairs) return pairs.error();
    return check_order(kind, *pairs);
  }

  // Place is an op of a node.
  struct Place {
    u32 node = none, op = none;
    bool operator==(const Place&) const = default;
  };
  struct Pair {
    Place send, receive;
  };

  Result<std::vector<Pair>> match(SegmentKind kind) const {
    std::map<NodeMessage, Pair> pairs;
    for (const Plan& plan : plans_) {
      const Segment& segment = plan.segment(kind);
      for (u32 i = 0; i < segment.ops.size(); ++i) {
        const Op& op = segment.ops[i];
        if (op.kind != OpKind::send && op.kind != OpKind::receive) continue;
        const NodeMessage message = message_of(plan, segment, op);
        Pair& pair = pairs[message];
        Place& place = op.kind == OpKind::send ? pair.send : pair.receive;
        if (place.node != none)
          return misfit(fmt::format("{} makes {} twice", op_of_node(plan, kind, i), text(message)));
        place = {plan.node, i};
      }
    }
    std::vector<Pair> out;
    for (const auto& [message, pair] : pairs) {
      if (pair.send.node == none) return misfit(text(message) + " is received but never sent");
      if (pair.receive.node == none) return misfit(text(message) + " is sent but never received");
      TRY(check_content(kind, message, pair));
      out.push_back(pair);
    }
    return out;
  }

  const Operand& operand_of(SegmentKind kind, const Place& place) const {
    const Segment& segment = plans_[place.node].segment(kind);
    return segment.operands_of(segment.ops[place.op])[0];
  }

  // A parameter is sent at the version that the receiver expects. A part of a gradient is whole once all
  // micro-batches have added to it, or with several devices once these are summed.
  Result<void> check_content(SegmentKind kind, const NodeMessage& message, const Pair& pair) const {
    const Plan& plan = plans_[pair.send.node];
    const Operand &sent = operand_of(kind, pair.send), &received = operand_of(kind, pair.receive);
    if (sent.frame.bytes != received.frame.bytes)
      return misfit(fmt::format("{} is {} bytes there and {} here", text(message), sent.frame.bytes.value,
                                received.frame.bytes.value));
    const u32 sums = plan.replicas() > 1 ? 1 : plan.micro_batches_per_replica();
    const Segment& segment = plan.segment(kind);
    const u32 before = message.kind == Kind::grad_part && message.use == 0
                           ? versions_before_sums(plan, segment)[message.window]
                           : 0;
    const u32 expected = message.kind == Kind::grad_part ? before + sums : received.version;
    if (sent.version == expected) return {};
    return misfit(fmt::format("{} sends {} at version {}, not {}", op_of_node(plan, kind, pair.send.op),
                              text(message), sent.version, expected));
  }

  // Kahn's algorithm over the ops of all nodes. Every lane issues in plan order, so an op of a lane that
  // completes in any order still waits for what the ops before it on its lane waited for: hence a vertex for
  // an op's issue, beside the one for its end. On the network's lanes an op may also have to wait for a place
  // among net_depth ops in flight.
  Result<void> check_order(SegmentKind kind, const std::vector<Pair>& pairs) {
    std::vector<u32> begin = {0};
    for (const Plan& plan : plans_)
      begin.push_back(begin.back() + static_cast<u32>(plan.segment(kind).ops.size()));
    const u32 ops = begin.back();
    const auto done = [&](u32 node, u32 op) { return begin[node] + op; };
    const auto issued = [&](u32 node, u32 op) { return ops + begin[node] + op; };
    std::vector<std::vector<u32>> next(2 * u64{ops});
    std::vector<u32> waits(2 * u64{ops}, 0);
    const auto edge = [&](u32 from, u32 to) {
      next[from].push_back(to);
      ++waits[to];
    };
    for (u32 n = 0; n < plans_.size(); ++n) {
      const Segment& segment = plans_[n].segment(kind);
      std::map<LaneId, std::vector<u32>> lanes;
      for (u32 i = 0; i < segment.ops.size(); ++i) {
        const LaneId lane = segment.ops[i].lane;
        edge(issued(n, i), done(n, i));
        for (const OpId dep : segment.deps_of(segment.ops[i])) edge(done(n, index(dep)), issued(n, i));
        std::vector<u32>& before = lanes[lane];
        if (!before.empty()) {
          edge(issued(n, before.back()), issued(n, i));
          if (is_ordered(lane.kind)) edge(done(n, before.back()), done(n, i));
        }
        if (is_net(lane.kind) && before.size() >= net_depth)
          edge(done(n, before[before.size() - net_depth]), issued(n, i));
        before.push_back(i);
      }
    }
    for (const Pair& pair : pairs) {
      edge(issued(pair.send.node, pair.send.op), done(pair.receive.node, pair.receive.op));
      edge(issued(pair.receive.node, pair.receive.op), done(pair.send.node, pair.send.op));
    }
    std::vector<u32> ready;
    for (u32 v = 0; v < waits.size(); ++v)
      if (waits[v] == 0) ready.push_back(v);
    u64 seen = 0;
    while (!ready.empty()) {
      const u32 v = ready.back();
      ready.pop_back();
      ++seen;
      for (const u32 to : next[v])
        if (--waits[to] == 0) ready.push_back(to);
    }
    if (seen == waits.size()) return {};
    const u32 stuck =
        static_cast<u32>(std::ranges::find_if(waits, [](u32 w) { return w > 0; }) - waits.begin());
    const u32 op = stuck % ops;
    const u32 node = static_cast<u32>(std::ranges::upper_bound(begin, op) - begin.begin()) - 1;
    return misfit(op_of_node(plans_[node], kind, op - begin[node]) + " waits in a circle between nodes");
  }

  std::span<const Plan> plans_;
};

}  // namespace

NodeMessage message_of(const Plan& plan, const Segment& segment, const Op& op) {
  const Chunk& chunk = plan.chunk(segment.operands_of(op)[0].first);
  NodeMessage m{
      .from = plan.node, .to = op.peer, .kind = chunk.kind, .window = chunk.window, .cut = chunk.cut};
  if (op.kind == OpKind::receive) std::swap(m.from, m.to);
  if (m.kind == Kind::grad_accum) {
    m.kind = Kind::grad_part;
    m.use = chunk.instance;
  } else if (m.kind == Kind::grad_part) {
    m.use = chunk.instance / plan.nodes;
  }
  return m;
}

Result<void> verify_nodes(std::span<const Plan> plans, const ModelGraph& graph) {
  for (const Plan& plan : plans) TRY(verify_plan(plan, graph));
  return NodesVerifier(plans).verify();
}

}  // namespace tidepool
