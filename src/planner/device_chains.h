// DeviceChains lists the content that the step program touches on a device, with its touches and the gaps
// between them.
#pragma once

#include <optional>
#include <vector>

#include "planner/residence.h"

namespace tidepool {

// DeviceChain is one content that lives through several touches; gaps.size() == touches.size() - 1.
struct DeviceChain {
  struct Gap {
    Span span;  // from the last op of one pass to the first of the next
    bool stays = false;
  };
  ChunkId first{};
  u32 count = 1;
  std::vector<Span> touches;
  std::vector<Gap> gaps;
  std::vector<const Pass*> passes;  // parameter chains only
  u32 window = none;
  bool produced_here = false;  // made on the device: evicting it costs a move down
  bool leaves = false;         // moves down after the last touch (gradients)
  std::vector<u8> segments;    // streams only: by touch, the segments that contain its first op
  Spread spread = Spread::each;
  i32 floor = -1'000'000'000;
  FromRest from_rest = FromRest::alike;
};

// REQUIRES: all arguments outlive this object. `home`, by window, may change between calls.
class DeviceChains {
 public:
  DeviceChains(const ResidenceInput&, const std::vector<bool>& home);

  // Parameters, accumulators, gradients and streams; not gradient streams, which never leave.
  std::vector<DeviceChain> all() const;

  Span kept_span(u32 block, u32 sweep, u32 m) const;
  Span batch_span(u32 sweep, u32 m) const;
  // From the first to the last use of a gradient stream in a sweep; none: another stream, or no op uses it.
  std::optional<Span> gradient_stream_span(u32 stream, u32 sweep, u32 m) const;
  // For parameters that die: from the update to the last use, and at least until a drain has ended.
  Span param_span(u32 window) const;

  bool is_home(u32 window) const { return home_[window]; }
  // True if the window must be fetched before use. A window at home on one device is used in its home; with
  // several devices each has a shard of it, and an all_gather brings the shards together before use.
  bool streams(u32 window) const { return !is_home(window) || sharded(); }
  bool sharded() const { return layout_.devices > 1; }
  bool passes_parts() const { return layout_.nodes > 1; }
  u32 sweeps() const { return program_.options.sweeps; }
  u32 head() const { return static_cast<u32>(graph_.blocks.size()) - 1; }
  u32 micro_batches() const { return program_.sweep_micro_batches; }

 private:
  const Pass& pass(OpKind, u32 block, u32 sweep) const;
  DeviceChain params(u32 window) const;
  std::vector<DeviceChain> accumulators(u32 window) const;
  std::optional<DeviceChain> gradient(u32 window) const;
  DeviceChain stream(const StreamLife&, u32 m) const;
  DeviceChain shard(u32 window, ChunkId first) const;
  void extend_to_update(DeviceChain&) const;

  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  const std::vector<bool>& home_;
  std::vector<u32> passes_;  // [(sweep * blocks + block) * 2 + is backward], index into Program::passes
  std::vector<i32> loads_;   // [micro-batch of the device's step]
};

}  // namespace tidepool
