// most_saved() finds the most that memory saves on a link, as a min-cost flow.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"
#include "planner/bound/lower_bound.h"

namespace tidepool {
namespace {

// Nodes are cuts between ops. A unit of flow is one byte of memory on its way through the step: along an
// interval's edge it holds that content, along the chain it is idle.

// Forced edges cost thousands per byte: for large models their sum does not fit 64 bits.
__extension__ using Total = __int128;

class Flow {
 public:
  explicit Flow(u32 nodes) : head_(nodes), potential_(nodes), distance_(nodes), edge_to_(nodes) {}

  void add_edge(u32 from, u32 to, u64 capacity, i64 cost) {
    if (capacity == 0) return;
    head_[from].push_back(static_cast<u32>(edges_.size()));
    edges_.push_back({to, capacity, cost});
    head_[to].push_back(static_cast<u32>(edges_.size()));
    edges_.push_back({from, 0, -cost});
  }

  // Sends up to `amount` from the first node to the last, cheapest first.
  // RETURNS: the total cost.
  Total send(u64 amount) {
    const u32 target = static_cast<u32>(head_.size()) - 1;
    first_potentials();
    Total cost = 0;
    while (amount > 0 && shortest_paths()) {
      u64 step = amount;
      for (u32 v = target; v != 0; v = other(edge_to_[v]))
        step = std::min(step, edges_[edge_to_[v]].capacity);
      for (u32 v = target; v != 0; v = other(edge_to_[v])) {
        edges_[edge_to_[v]].capacity -= step;
        edges_[edge_to_[v] ^ 1].capacity += step;
        cost += Total{edges_[edge_to_[v]].cost} * step;
      }
      amount -= step;
    }
    return cost;
  }

 private:
  static constexpr i64 far = std::numeric_limits<i64>::max() / 4;
  struct Edge {
    u32 to;
    u64 capacity;
    i64 cost;
  };

  u32 other(u32 edge) const { return edges_[edge ^ 1].to; }

  // Before anything has been sent, all edges go from lower nodes to higher ones.
  void first_potentials() {
    std::fill(potential_.begin(), potential_.end(), far);
    potential_[0] = 0;
    for (u32 v = 0; v < head_.size(); ++v)
      for (u32 e : head_[v])
        if (edges_[e].capacity > 0)
          potential_[edges_[e].to] = std::min(potential_[edges_[e].to], potential_[v] + edges_[e].cost);
  }

  bool shortest_paths() {
    std::fill(distance_.begin(), distance_.end(), far);
    distance_[0] = 0;
    using Item = std::pair<i64, u32>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
    queue.push({0, 0});
    while (!queue.empty()) {
      const auto [d, v] = queue.top();
      queue.pop();
      if (d > distance_[v]) continue;
      for (u32 e : head_[v]) {
        const Edge& edge = edges_[e];
        if (edge.capacity == 0) continue;
        const i64 next = d + edge.cost + potential_[v] - potential_[edge.to];
        if (next >= distance_[edge.to]) continue;
        distance_[edge.to] = next;
        edge_to_[edge.to] = e;
        queue.push({next, edge.to});
      }
    }
    if (distance_.back() == far) return false;
    for (u32 v = 0; v < head_.size(); ++v)
      if (distance_[v] < far) potential_[v] += distance_[v];
    return true;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<u32>> head_;
  std::vector<i64> potential_, distance_;
  std::vector<u32> edge_to_;
};

u64 most_saved_cut_at_0(const std::vector<Saving>& savings, const std::vector<u64>& capacity) {
  const i32 positions = static_cast<i32>(capacity.size());
  struct Edge {
    i32 begin, end;  // nodes; `end` is one past the last position
    u64 bytes;
    i64 cost;  // per byte, in 1 / scale, rounded so that the saving is never too small
  };
  constexpr u64 scale = 1024;
  std::vector<Edge> edges;
  std::vector<i32> cuts = {0, positions};
  for (const Saving& s : savings) {
    const i64 cost = -static_cast<i64>(div_up(s.saved * scale, s.bytes));
    if (s.begin >= 0) {
      edges.push_back({s.begin, s.end + 1, s.bytes, cost});
    } else {
      edges.push_back({s.begin + positions, positions, s.bytes, (cost - 1) / 2});
      edges.push_back({0, s.end + 1, s.bytes, (cost - 1) / 2});
    }
  }
  for (const Edge& e : edges) cuts.push_back(e.begin), cuts.push_back(e.end);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto node = [&](i32 position) {
    return static_cast<u32>(std::lower_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
  };
  Flow flow(static_cast<u32>(cuts.size()));
  const u64 most = *std::max_element(capacity.begin(), capacity.end());
  const i64 forced = -4 * static_cast<i64>(scale * cuts.size());  // bytes that are not there must walk idle
  Total forced_cost = 0;
  for (u32 n = 0; n + 1 < cuts.size(); ++n) {
    const u64 here = *std::min_element(capacity.begin() + cuts[n], capacity.begin() + cuts[n + 1]);
    flow.add_edge(n, n + 1, most - here, forced);
    flow.add_edge(n, n + 1, most, 0);
    forced_cost += Total{forced} * (most - here);
  }
  for (const Edge& e : edges) flow.add_edge(node(e.begin), node(e.end), e.bytes, e.cost);
  const i64 cost = static_cast<i64>(flow.send(most) - forced_cost);
  CHECK(cost <= 0, cost);
  return div_up(static_cast<u64>(-cost), scale);
}

// The same circle with its start moved `by` positions.
std::vector<Saving> turned(std::vector<Saving> savings, i32 by, i32 positions) {
  for (Saving& s : savings) {
    if (s.end - s.begin + 1 == positions) continue;  // all around: independent of the start
    s.begin -= by, s.end -= by;
    while (s.end < 0) s.begin += positions, s.end += positions;
  }
  return savings;
}

}  // namespace

// Every cut gives a valid bound; the best is a cut that few stays cross.
u64 most_saved(const std::vector<Saving>& savings, const std::vector<u64>& capacity) {
  constexpr i32 cuts = 4;
  const i32 positions = static_cast<i32>(capacity.size());
  u64 least = std::numeric_limits<u64>::max();
  for (i32 c = 0; c < cuts; ++c) {
    const i32 by = positions * c / cuts;
    std::vector<u64> from(capacity.begin() + by, capacity.end());
    from.insert(from.end(), capacity.begin(), capacity.begin() + by);
    least = std::min(least, most_saved_cut_at_0(turned(savings, by, positions), from));
  }
  return least;
}

}  // namespace tidepool
