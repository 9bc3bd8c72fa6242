// DeviceChains lists the content that the step program touches on devices, with its touches and the gaps
// between them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/residence.h"

namespace tidepool {

// DeviceChain is one content that lives through several touches.
struct DeviceChain {
  struct Touch {
    Span span;
    u32 device = 0;  // layers over devices
    bool writes = true;
    u8 segments = in_first | in_body;  // segments that contain its first op
    i32 earliest = -1'000'000'000;     // position before which it should not come from another device
    // Filled in for all touches of a chain.
    u32 before = none;               // the touch since which the content may stay on this device, unchanged
    u32 made_by = none;              // the last touch before that changed it
    bool is_read_elsewhere = false;  // what it makes goes to another device, so it moves down anyway
    bool stays = false;              // on the device since the touch `before`
  };
  ChunkId first{};
  u32 count = 1;
  std::vector<Touch> touches;
  u32 window = none;
  bool produced_here = false;  // made on a device; if not, it comes from the host, and never changes here
  bool leaves = false;         // moves down after the last touch (gradients)
  bool visits = false;         // comes from the host, is changed once, and goes back (directions)
  // Gradients: latest position at which to move down in time for the update, in the next turn. 0: at once.
  i32 leaves_by = 0;
  bool waits = false;  // chosen: moves down then
  Spread spread = Spread::each;
  i32 floor = -1'000'000'000;
  FromRest from_rest = FromRest::alike;

  // From the last op of the touch since which it may stay, to the first op of this one.
  Span gap_before(u32 touch) const {
    return {touches[touches[touch].before].span.end + 1, touches[touch].span.begin - 1};
  }
  // From the last touch until it must move down.
  Span gap_until_left() const { return {touches.back().span.end + 1, leaves_by}; }
  // Position after which it moves down, if it leaves.
  i32 leaves_after() const { return waits ? leaves_by : touches.back().span.end; }
};

// ChainRun is the touches of a chain through which the content stays on one device.
struct ChainRun {
  std::vector<u32> touches;  // ascending
  Span span;
  u32 device = 0;
};
// RETURNS: the runs that Touch::stays makes, in order of their first touch.
std::vector<ChainRun> runs_of(const DeviceChain&);

// The arc of a run. Its span is turned onto the circle. In device_arcs.cpp, like add_arcs().
Arc arc_of(const Layout&, const Program&, const DeviceChain&, const ChainRun&);

// Adds arcs, arrivals and departures of the chain's runs: it turns a chain of touches into arcs of its
// devices, and into the copies that lead to and from them.
void add_arcs(const Layout&, const Program&, const DeviceChain&, DeviceTier&);

// REQUIRES: all arguments outlive this object. `home`, by window, may change between calls.
class DeviceChains {
 public:
  DeviceChains(const ModelGraph&, const Layout&, const Program&, const std::vector<bool>& home);

  // Parameters, accumulators, gradients and streams. Gradient streams only if they may leave a device.
  std::vector<DeviceChain> all() const;

  // The chain of a stream's content for a piece of its sweep.
  DeviceChain stream(const StreamLife&, u32 unit) const;
  Span kept_span(u32 block, u32 sweep, u32 unit) const;
  // By device that reads it.
  std::vector<std::pair<u32, Span>> batch_spans(u32 sweep, u32 m) const;
  // Rows that are looked up are read by the embedding's forward.
  Span rows_span(u32 sweep, u32 m) const;
  // From the first to the last use of a gradient stream in a sweep; none: another stream, or no op uses it,
  // or it is among the chains.
  std::optional<Span> gradient_stream_span(u32 stream, u32 sweep, u32 unit) const;
  // For parameters that die: from the update to the last use, and at least until a drain has ended.
  Span param_span(u32 window) const;
  // The device of the blocks that read the window; none: they run on several. With data over devices 0.
  u32 device_of(u32 window) const { return device_of_[window]; }

  bool is_home(u32 window) const { return home_[window]; }
  // True if the window must be fetched before use. A window at home on one device is used in its home; with
  // several replicas each has a shard of it, and an all_gather brings the shards together before use. A
  // window that is looked up stays where it is.
  bool streams(u32 window) const {
    return window != layout_.lookup.window && (!is_home(window) || sharded());
  }
  bool sharded() const { return layout_.replicas > 1; }
  bool layers() const { return program_.options.parallel == Parallel::layers; }
  // True if gradient streams may leave their device: blocks run on several, or micro-batches are cut into
  // pieces.
  bool gradients_leave() const { return layers() || program_.options.pieces > 1; }
  // Devices whose arcs differ.
  u32 arenas() const { return layers() ? layout_.devices : 1; }
  bool passes_parts() const { return layout_.nodes > 1; }
  u32 sweeps() const { return program_.options.sweeps; }
  u32 head() const { return static_cast<u32>(graph_.blocks.size()) - 1; }
  u32 micro_batches() const { return program_.sweep_micro_batches; }
  u32 units() const { return program_.sweep_units(); }

 private:
  const Pass& pass(OpKind, u32 block, u32 sweep) const;
  DeviceChain params(u32 window, u32 device) const;
  std::vector<DeviceChain> accumulators(u32 window) const;
  std::optional<DeviceChain> gradient(u32 window) const;
  DeviceChain visit(u32 window, u32 cut) const;
  DeviceChain shard(u32 window, ChunkId first) const;
  DeviceChain::Touch at_gradient(u32 window) const;
  void extend_to_update(DeviceChain&) const;
  void let_leave(DeviceChain&) const;

  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  const std::vector<bool>& home_;
  std::vector<u32> passes_;  // [(sweep * blocks + block) * 2 + is backward], index into Program::passes
  std::vector<std::vector<u32>> param_passes_;  // [window]: passes that read its parameters, in order
  std::vector<i32> loads_;                      // [micro-batch of the replica's step]
  std::vector<u32> device_of_;                  // [window]
};

}  // namespace tidepool
