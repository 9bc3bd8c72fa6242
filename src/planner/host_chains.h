// What the device and the updates need in the host, content by content: when, and the gaps in between.
#pragma once

#include <vector>

#include "planner/residence.h"

namespace tidepool {

// Something that needs the chunk in the host, at a position of this turn (or, negative, of the last).
struct HostUse {
  enum class What : u8 {
    arrives,
    supplies,
    updates,
    makes
  } what{};  // makes: by an update that does not read it
  i32 position = 0;
  u8 segments = 0;  // where it happens, if its position is in this turn
  u32 device_arc = none;
  Phase phase = Phase::after;  // of the copy
};

// One chunk's uses in order. A circular chain starts again in the next turn with what it left; others begin
// with what makes or brings the content, and end with its last use.
struct HostChain {
  ChunkId chunk{};
  u16 device = 0;  // that it comes from and goes to
  bool circular = false;
  bool persistent = false;  // has a home
  std::vector<HostUse> uses;
  std::vector<bool> stays;  // [i]: stays from use i to the next (circular: the last to the first)
  bool home_host = false;   // rests in the host: all around, or from what makes it to its last use

  // `i` is unrolled: from uses.size() on it is a use of the next turn.
  const HostUse& use(u64 i) const { return uses[i % uses.size()]; }
  u64 gaps() const { return uses.size() - (circular ? 0 : 1); }
  // Where nothing needs it between use i and the next; empty if its end is before its beginning.
  Span gap_after(u64 i, i32 turn) const;
};

// Whether its content ever changes: a frozen window's parameters do not.
bool trains(const Layout&, const HostChain&);

// All that it is given must outlive it.
class HostChains {
 public:
  HostChains(const ResidenceInput&, const DeviceTier&);

  // Of state that has no home on the device, and of what devices hand down. Forced homes in the host, and
  // stays that no choice can end, are marked.
  std::vector<HostChain> all() const;

 private:
  i32 turn() const { return program_.positions(); }
  bool clipping() const { return program_.options.clipping; }
  u8 update_segments() const { return clipping() ? in_body | in_drain : in_first | in_body; }

  HostChain params(u32 window, u32 cut, const std::vector<const DeviceTier::Arrival*>&) const;
  HostChain state(ChunkId, u32 window, u32 cut) const;
  HostChain departure(const DeviceTier::Departure&, ChunkId, u16 device) const;
  HostUse supply(const DeviceTier::Arrival&, i32 update) const;
  void init_stays(HostChain&) const;
  bool is_forced(u32 window) const;

  const ResidenceInput& in_;
  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
};

}  // namespace tidepool
