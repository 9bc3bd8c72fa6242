// ChainArcs turns a chain of touches into arcs of its devices, and into the copies that lead to and from
// them.

#include <algorithm>

#include "planner/device_chains.h"

namespace tidepool {
namespace {

// ChainArcs adds the arcs of one chain, run by run.
class ChainArcs {
 public:
  ChainArcs(const Layout& layout, const Program& program, const DeviceChain& chain, DeviceTier& out)
      : layout_(layout),
        program_(program),
        chain_(chain),
        out_(out),
        arc_of_(chain.touches.size(), none),
        departures_(chain.touches.size(), none) {}

  void add() {
    for (const ChainRun& run : runs_of(chain_)) {
      for (const u32 t : run.touches) arc_of_[t] = static_cast<u32>(out_.arcs.size());
      out_.arcs.push_back(arc_of(layout_, program_, chain_, run));
      const u32 first = run.touches.front();
      if (chain_.visits)
        visit();
      else if (!chain_.produced_here)
        bring(first);
      else if (first > 0)
        bring_back(first);
    }
    if (chain_.leaves) depart(static_cast<u32>(chain_.touches.size()));
  }

 private:
  u32 last_arc() const { return static_cast<u32>(out_.arcs.size()) - 1; }

  // Parameters come up into the arc added last.
  void bring(u32 t) {
    Arc& arc = out_.arcs.back();
    arc.filled = true;
    if (t > 0) arc.floor = std::max(arc.floor, chain_.touches[t - 1].span.end + 1);
    out_.arrivals.push_back(
        {.window = chain_.window, .arc = last_arc(), .segments = chain_.touches[t].segments});
  }

  void visit() {
    Arc& arc = out_.arcs.back();
    arc.filled = true;
    arc.tail = 1;  // while it goes down, the next one is orthogonalized
    out_.visits.push_back({.chunk = chain_.first, .arc = last_arc()});
  }

  // Content that was made on a device comes back into the arc added last.
  void bring_back(u32 t) {
    const DeviceChain::Touch& touch = chain_.touches[t];
    Arc& arc = out_.arcs.back();
    const i32 turn = touch.span.begin - arc.span.begin;
    const u32 from = touch.before == none ? touch.made_by : std::max(touch.made_by, touch.before);
    u32& departure = departures_[touch.made_by];
    if (departure == none) departure = depart(t);
    DeviceTier::Departure& d = out_.departures[departure];
    arc.filled = true;
    arc.floor = std::max(chain_.touches[from].span.end, d.out) + 1 - turn;
    if (chain_.touches[touch.made_by].device != touch.device)
      arc.floor = std::max(arc.floor, touch.earliest - turn);
    d.segments = d.backs.empty() ? touch.segments : d.segments | touch.segments;
    d.backs.push_back({.arc = last_arc(), .turn = turn, .segments = touch.segments});
  }

  // Adds the departure of what is there before touch `t`. It goes to another device at once; otherwise after
  // the last touch of its arc.
  // RETURNS: its index.
  u32 depart(u32 t) {
    const u32 maker = chain_.touches[t - 1].writes ? t - 1 : chain_.touches[t - 1].made_by;
    u32 last = chain_.touches[maker].is_read_elsewhere ? maker : t - 1;
    while (arc_of_[last] != arc_of_[maker]) --last;
    Arc& arc = out_.arcs[arc_of_[maker]];
    const bool leaves = t == chain_.touches.size();
    const i32 out = leaves ? chain_.leaves_after() : chain_.touches[last].span.end;
    if ((arc.span.end - out) % program_.positions() == 0) arc.tail = tail_positions();
    out_.departures.push_back({.first = chain_.first,
                               .count = chain_.count,
                               .spread = chain_.spread,
                               .from_arc = arc_of_[maker],
                               .out = out,
                               .backs = {},
                               .segments = segments_after(out)});
    return static_cast<u32>(out_.departures.size()) - 1;
  }

  // A gradient that waits for the norm here moves down in the next turn.
  u8 segments_after(i32 out) const {
    return out < program_.positions() ? in_first | in_body : in_body | in_drain;
  }

  // The next block's pass over its micro-batches should hide the copy out of a frame.
  i32 tail_positions() const { return static_cast<i32>(program_.sweep_units()) + 1; }

  const Layout& layout_;
  const Program& program_;
  const DeviceChain& chain_;
  DeviceTier& out_;
  std::vector<u32> arc_of_;      // by touch
  std::vector<u32> departures_;  // by the touch that made the content
};

}  // namespace

Arc arc_of(const Layout& layout, const Program& program, const DeviceChain& chain, const ChainRun& run) {
  const i32 turn = program.positions();
  Span span = run.span;
  if (span.end >= turn) span = {span.begin - turn, span.end - turn};
  return {.first = chain.first,
          .count = chain.count,
          .bytes = most_held(layout, chain.first, chain.count, chain.spread),
          .span = span,
          .floor = chain.floor,
          .spread = chain.spread,
          .from_rest = chain.from_rest,
          .device = run.device};
}

void add_arcs(const Layout& layout, const Program& program, const DeviceChain& chain, DeviceTier& out) {
  ChainArcs(layout, program, chain, out).add();
}

}  // namespace tidepool
