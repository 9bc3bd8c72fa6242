// HostChains lists the content that the device and the updates need in the host, with its uses and the gaps
// between them.
#pragma once

#include <vector>

#include "planner/residence.h"

namespace tidepool {

// HostUse is a need for the chunk in the host, at a position of this turn (or, if negative, of the last).
struct HostUse {
  enum class What : u8 {
    arrives,   // from a device
    supplies,  // a device
    updates,
    makes,     // an update writes the chunk without reading it, here or on another node that sends it
    combines,  // a combine op reads this part of a gradient; in fp32 this node's part becomes the sum
    sums,      // a combine op makes the chunk
    sends,     // to the node that owns the cut
  } what{};
  i32 position = 0;
  u8 segments = 0;  // segments that contain the use, if its position is in this turn
  u32 device_arc = none;
  u16 device = 0;              // of device_arc
  Phase phase = Phase::after;  // phase of the copy
};

// HostChain holds one chunk's uses in order. A circular chain starts again in the next turn with the content
// that it left. Other chains begin with the op that makes or brings the content, and end with its last use.
struct HostChain {
  ChunkId chunk{};
  bool circular = false;
  bool persistent = false;  // has a home
  u32 peer = none;          // the node that sends the content, at the first use
  i32 floor = 0;            // with a peer: earliest position at which receiving it makes sense
  std::vector<HostUse> uses;
  std::vector<bool> stays;  // [i]: stays from use i to the next (circular: the last to the first)
  // Use from which on it must stay: a direction does, while it also visits a device.
  u64 stays_from = ~u64{0};
  bool home_host = false;  // rests in the host: all around, or from the op that makes it to its last use

  // `i` is unrolled: from uses.size() on it counts uses of the next turn.
  const HostUse& use(u64 i) const { return uses[i % uses.size()]; }
  u64 gaps() const { return uses.size() - (circular ? 0 : 1); }
  // Span between use i and the next in which nothing needs the chunk; empty if it ends before it begins.
  Span gap_after(u64 i, i32 turn) const;
};

// True if the content ever changes; a frozen window's parameters never do.
bool trains(const Layout&, const HostChain&);

// REQUIRES: all arguments outlive this object.
class HostChains {
 public:
  HostChains(const ResidenceInput&, const DeviceTier&);

  // Chains of state without a home on the device, and of content that devices hand down. Forced homes in the
  // host, and stays that no choice can end, are marked.
  std::vector<HostChain> all() const;

 private:
  i32 turn() const { return program_.positions(); }
  bool clipping() const { return program_.options.clipping; }
  u8 update_segments() const { return clipping() ? in_body | in_drain : in_first | in_body; }

  HostChain params(u32 window, u32 cut, const std::vector<const DeviceTier::Arrival*>&) const;
  HostChain state(ChunkId, u32 window, u32 cut) const;
  HostChain departure(const DeviceTier::Departure&, ChunkId, u32 replica) const;
  void add_update(HostChain&) const;
  HostChain own_part(HostUse down, ChunkId) const;
  void add_sums(u32 window, std::vector<HostChain>&) const;
  i32 receives_ahead() const;
  HostUse supply(const DeviceTier::Arrival&, i32 update, u32 replica) const;
  u16 device_of(u32 arc, u32 replica) const;
  void init_stays(HostChain&) const;
  bool is_forced(u32 window) const;

  const ResidenceInput& in_;
  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
  std::vector<u32> visits_;  // [chunk], in DeviceTier::visits
};

}  // namespace tidepool
