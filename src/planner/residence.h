// Residence says where every chunk is during one turn of the body: arcs per tier, and the movements between
// them. Built tier by tier, device first: its copies are the host's uses, and the host's misses are the
// disk's.
#pragma once

#include <array>
#include <vector>

#include "chunk_manager/timeline.h"
#include "planner/planner.h"
#include "planner/program.h"

namespace tidepool {

// Segments to which an op belongs. The segments are subsets of the body's arcs, so they share frames.
enum SegmentMask : u8 {
  in_first = 1 << static_cast<u8>(SegmentKind::forward_backward),
  in_body = 1 << static_cast<u8>(SegmentKind::body),
  in_drain = 1 << static_cast<u8>(SegmentKind::drain),
  in_evaluation = 1 << static_cast<u8>(SegmentKind::evaluation),
};

// Segments that contain a pass. An evaluation has the first sweep's forward, and the head.
inline u8 segments_of(const Pass& pass, u32 head) {
  const bool evaluated = pass.sweep == 0 && (pass.kind == OpKind::forward || pass.block == head);
  return in_first | in_body | (evaluated ? in_evaluation : 0);
}

// Order within a position: movements that feed the op, the op, movements that follow it.
enum class Phase : u8 { before, op, after };
struct Moment {
  i32 position = 0;
  Phase phase = Phase::before;
  auto operator<=>(const Moment&) const = default;
};

// Place is one end of a movement: an arc of a tier, a frame on disk, or another node.
struct Place {
  Tier tier{};
  u32 arc = none;   // device, host
  Frame frame;      // disk
  u16 device = 0;   // device
  u32 node = none;  // another node: it has no tier here
};

struct Movement {
  ChunkId chunk{};
  Place from, to;
  Moment when;  // in [0, positions)
  u8 segments = 0;
  i32 need = 0;         // circular order among movements of the same moment
  u32 looks_up = none;  // rows of a table come into a host arc: the micro-batch within the step
};

// DeviceTier is the plan of the devices. With data over devices all have the same arcs at the same offsets,
// and Arc::spread says which chunks each has in them. With layers over devices Arc::device has an arc.
struct DeviceTier {
  std::vector<Arc> arcs;
  std::vector<bool> home;  // by window: true if all its chunks rest on the device, each on its owner
  Bytes home_bytes{};      // most bytes of windows at home on one device, with their gradients
  std::vector<bool> keep;  // [block * micro_batches of a sweep + m]
  Bytes peak{};
  Bytes needs_least{};  // no choice has a lower peak
  Bytes resident{};     // bytes of a model that never leaves the device; automatic homes only
  // By position: bytes that streaming needs, without the homes here. With layers over devices the mean of
  // all, of which none counts more than its budget.
  std::vector<u64> working_set;
  std::vector<u64> least_set;  // working_set without room to stream ahead

  // Arrival brings a window's parameters up before a pass. With several replicas each cut comes to its owner
  // (or rests there), and then all devices get the cuts of the others.
  struct Arrival {
    u32 window = none;
    u32 arc = none;
    u8 segments = 0;
  };
  std::vector<Arrival> arrivals;
  // Departure moves chunks (replica 0's ids) down after `out`. They come back into arcs of the same device or
  // of others, unchanged each time.
  struct Back {
    u32 arc = none;
    i32 turn = 0;  // added to the arc's positions, as the arc may lie on the circle's other side
    u8 segments = 0;
  };
  struct Departure {
    ChunkId first{};
    u32 count = 1;
    Spread spread = Spread::each;
    u32 from_arc = none;
    i32 out = 0;
    std::vector<Back> backs;  // in order; empty: they do not come back
    u8 segments = in_first | in_body;
  };
  std::vector<Departure> departures;
  // Visit is a direction that comes up from the host, is orthogonalized, and goes down again.
  struct Visit {
    ChunkId chunk{};
    u32 arc = none;
  };
  std::vector<Visit> visits;
};

struct HostTier {
  std::vector<Arc> arcs;
  std::vector<Frame> homes;    // by chunk; host offsets are filled in from the arcs
  std::vector<u32> home_arcs;  // by chunk: arc of a chunk that rests in the host, else none
  std::vector<Movement> movements;
  Bytes peak{};
  Bytes needs_least{};           // no choice has a lower peak
  std::vector<u64> working_set;  // by position: bytes that streaming needs, without the homes here
  std::vector<u64> least_set;    // working_set without room to stream ahead
  Bytes disk_bytes{};
  // Several versions of the state on disk; see commit_ops.h.
  u32 versions = 1;
  std::vector<Frame> slots;  // by chunk
  Bytes second_slot{};
  std::vector<u32> persist_buffers;  // arcs
};

// ResidenceInput is the input that all tiers share.
struct ResidenceInput {
  const ModelGraph& graph;
  const Layout& layout;
  const Program& program;
  const PlanOptions& options;
};

// Chunks that one replica holds of an arc.
struct Held {
  ChunkId first{};
  u32 count = 0;
};
Held held_by(const Layout&, ChunkId first, u32 count, Spread, u32 replica);
// Most bytes that a replica has of them.
Bytes most_held(const Layout&, ChunkId first, u32 count, Spread);

// Bytes of a window on each device: its state, its gradient as it leaves the device, and both at rest
// together. If its parameters die, the gradient lies in their bytes.
Bytes state_bytes(const Layout&, u32 window);
Bytes gradient_bytes(const Layout&, u32 window);
Bytes bytes_at_home(const Layout&, u32 window);

struct HostShortage;

struct DeviceTierOptions {
  Bytes shrink{};            // plan that much below the budget, because placing left gaps in the last try
  Bytes home_bytes_least{};  // must rest here, because host and disk have no room for it
  const HostShortage* shortage = nullptr;  // null: the host lacks nothing
  // Copies may start early, but only within the bytes that the least needs, whatever the budget.
  bool within_least = false;
};

// Plan a tier. If the peak exceeds the budget, the tier does not fit. `shrink` is as in DeviceTierOptions.
DeviceTier plan_device_tier(const ResidenceInput&, const DeviceTierOptions&);
HostTier plan_host_tier(const ResidenceInput&, const DeviceTier&, Bytes shrink);

}  // namespace tidepool
