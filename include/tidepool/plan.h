// Plan lists every operation of a step with explicit frames and explicit order. A value: it can be printed,
// compared, verified and replayed.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "tidepool/policy.h"
#include "tidepool/state_slot.h"

namespace tidepool {

enum class Tier : u8 { device, host, disk };
inline constexpr u32 tier_count = 3;

constexpr std::string_view name(Tier tier) {
  constexpr std::array<std::string_view, tier_count> names = {"device", "host", "disk"};
  return names[static_cast<u32>(tier)];
}
inline constexpr std::array all_tiers = {Tier::device, Tier::host, Tier::disk};

// Most devices of one process. Each has an arena and a link of its own; host and disk are shared.
inline constexpr u32 devices_max = 16;
// Most nodes (machines) of one run. Each has a plan of its own.
inline constexpr u32 nodes_max = 64;
// Most versions of the state that the disk keeps.
inline constexpr u32 versions_max = 3;
// Most sends, and most receives, that a node has in flight.
inline constexpr u32 net_depth = 32;

// Frame is a byte range in a tier. Offsets count from the start of the tier's arena (or swap file).
struct Frame {
  Tier tier{};
  u16 device = 0;  // Tier::device only
  u64 offset = 0;
  Bytes bytes{};

  u64 end() const { return offset + bytes.value; }
  bool operator==(const Frame&) const = default;
};

// Issue queue. compute, h2d and d2h belong to a device. comm is one lane for all devices, because every
// collective needs every device. These lanes and host start ops in plan order. The lanes of disk and network
// complete in any order, so there only edges order ops.
enum class LaneKind : u8 { compute, h2d, d2h, comm, disk_read, disk_write, host, net_send, net_receive };
inline constexpr u32 lane_kind_count = 9;
inline constexpr u16 host_device = 0xffff;

constexpr std::string_view name(LaneKind kind) {
  constexpr std::array<std::string_view, lane_kind_count> names = {
      "compute", "h2d", "d2h", "comm", "disk_read", "disk_write", "host", "net_send", "net_receive"};
  return names[static_cast<u32>(kind)];
}
constexpr bool is_disk(LaneKind kind) { return kind == LaneKind::disk_read || kind == LaneKind::disk_write; }
constexpr bool is_net(LaneKind kind) { return kind == LaneKind::net_send || kind == LaneKind::net_receive; }
constexpr bool is_ordered(LaneKind kind) { return !is_disk(kind) && !is_net(kind); }

struct LaneId {
  u16 device = host_device;
  LaneKind kind{};
  auto operator<=>(const LaneId&) const = default;
};

enum class OpKind : u8 {
  load_batch,  // host: fills `batch` from the data
  forward,     // compute: one block, one micro-batch. In the head: the loss only (evaluation)
  backward,    // compute: one block, one micro-batch. In the head: its forward too
  gradient,    // compute: sums a window's accumulators, rounds once, norm partials. Of several nodes: combine
  norm,        // compute: partials in tensor order -> global norm, clip factor, skip flag
  update,      // host (or compute, where the chunk set's home is the device): a chunk set, by its rule
  // Before the update, if the rule is streamed (UpdatePlace).
  direction,      // host, or compute as an update: the gradient becomes the direction
  orthogonalize,  // compute: each matrix of the direction
  copy,           // h2d or d2h: one chunk
  read,           // disk -> host
  write,          // host -> disk
  // Collectives, only with several replicas: one op works on all devices at once.
  all_gather,      // comm: each device's cuts of a window to all others. Carries versions, as a copy does
  reduce_scatter,  // comm: sums the devices' accumulators, in order of device, to the cuts' owners
  // Only with several nodes.
  combine,  // host: sums the nodes' parts of a gradient, in order of node, rounds once, norm partials
  pack,     // host: puts this node's losses and norm partials side by side, for the other nodes
  send,     // host -> another node: an updated parameter, a part of a gradient, or scalars
  receive,  // another node -> host: makes what the other node sent
  // Only with several versions of the state on disk.
  commit,  // disk_write: makes the state on disk durable as a whole: a killed run resumes from it
  // Only with a table that is looked up (Lookup).
  lookup,  // host: fills `rows` with the rows of a micro-batch's tokens, from the table's home
  // Only with micro-batches that are cut into tiles.
  recall,  // compute: one block, one piece: makes what its tokens hand to later ones again, before the
           // backward
};
inline constexpr u32 op_kind_count = 20;

constexpr std::string_view name(OpKind kind) {
  constexpr std::array<std::string_view, op_kind_count> names = {
      "load_batch",    "forward", "backward", "gradient", "norm",       "update",         "direction",
      "orthogonalize", "copy",    "read",     "write",    "all_gather", "reduce_scatter", "combine",
      "pack",          "send",    "receive",  "commit",   "lookup",     "recall"};
  return names[static_cast<u32>(kind)];
}
// True if the op is of one piece of a micro-batch.
constexpr bool is_of_piece(OpKind kind) {
  return kind == OpKind::forward || kind == OpKind::recall || kind == OpKind::backward;
}
// True if the op moves content without changing it.
constexpr bool is_movement(OpKind kind) {
  return kind == OpKind::copy || kind == OpKind::read || kind == OpKind::write || kind == OpKind::all_gather;
}
// True for the ops that change a chunk set's state, or prepare that.
constexpr bool is_update(OpKind kind) {
  return kind == OpKind::update || kind == OpKind::direction || kind == OpKind::orthogonalize;
}
constexpr bool is_collective(OpKind kind) {
  return kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
}

// Operand is `count` chunks with consecutive ids, side by side in `frame`: a window, or one chunk. `version`
// is what a reader must find, or what Access::write leaves behind. read_write finds `version` and leaves
// version + 1. Versions count writes since the segment began.
//
// Operands of one op stand in this order, so that executors find them by kind and position:
//   copy, read, write   [0] source, [1] destination (same chunk)
//   lookup              rows (write)
//   forward             batch (if reads_batch()), params by block.windows (rows in the place of a window
//                       that is looked up), streams by
//                       block.forward_streams, kept?, past?, workspace, scalars (head)
//   backward            batch (if reads_batch()), params by block.windows (not embedding: its
//                       backward needs none), streams by block.backward_streams (kept? stands before
//                       the gradients among them), grad_accum by block.windows, past?, workspace,
//                       scalars (head). An accumulator with Access::write is overwritten, not added to
//   recall              as backward, without gradients and accumulators
//   gradient            grad_accum by use, grad (not in fp32), scalars
//   combine             by use, and for each use by node: grad_accum of this node, which becomes the sum,
//                       grad_part of others, which are used up; grad (not in fp32), scalars
//   pack                scalars by device (read), those of this node for the others (write)
//   send, receive       what is sent (read), or made (write)
//   norm                scalars; with several devices, first the scalars that receive the results; then with
//                       several nodes those of the others
//   update              grad (or grad_accum in fp32), param, the slots of the state, scalars (with clipping
//                       only). Kinds of made_by_update() have Access::write, other
//                       state read_write. Of a streamed rule: without the rule's slots
//   direction           grad, the rule's slots (all read_write), scalars (with clipping only)
//   orthogonalize       grad (read_write), workspace
//   commit              all committed chunks on disk (read); if updates do not wait for the norm, scalars
//   all_gather          what each device has (read), then what each device gets (write)
//   reduce_scatter      accumulators by device (read), then each owner's sum (write)
struct Operand {
  ChunkId first{};
  u32 count = 1;
  u32 version = 0;
  Access access{};
  Frame frame;

  bool operator==(const Operand&) const = default;
};

// Movements leave the version that they carry; read_write leaves the next version.
constexpr u32 version_left(const Operand& o) { return o.version + (o.access == Access::read_write ? 1 : 0); }

struct Op {
  OpKind kind{};
  LaneId lane;
  u32 block = none;
  u32 micro_batch = none;  // number within the whole step, ascending through the sweeps
  u32 piece = 0;           // forward, recall, backward: of the micro-batch (BatchShape::piece())
  u32 window = none;       // gradient, update
  u32 cut = none;          // update, direction, orthogonalize: the cut whose chunk set is updated
  u16 peer = 0;            // send: the node that receives. receive: the node that sends
  u8 steps_back = 0;       // 1: the op belongs to the step before the one whose forward this segment runs
  bool persists = false;   // only in steps that are committed: see SegmentRun
  u32 operands_begin = 0;
  u32 operands_count = 0;
  u32 deps_begin = 0;
  u32 deps_count = 0;

  bool operator==(const Op&) const = default;
};

// forward_backward starts from rest, body repeats, drain returns to rest. "At rest": every
// persistent chunk is valid in its home and nothing else is live.
enum class SegmentKind : u8 { forward_backward, body, drain, evaluation };
inline constexpr u32 segment_count = 4;

constexpr std::string_view name(SegmentKind kind) {
  constexpr std::array<std::string_view, segment_count> names = {"forward-backward", "body", "drain",
                                                                 "evaluation"};
  return names[static_cast<u32>(kind)];
}

struct Segment {
  SegmentKind kind{};
  std::vector<Op> ops;  // topological: every edge goes from a lower index to a higher one
  std::vector<Operand> operands;
  std::vector<OpId> deps;

  std::span<const Operand> operands_of(const Op& op) const {
    return std::span(operands).subspan(op.operands_begin, op.operands_count);
  }
  std::span<const OpId> deps_of(const Op& op) const {
    return std::span(deps).subspan(op.deps_begin, op.deps_count);
  }
  bool operator==(const Segment&) const = default;
};

// Edges from a segment to the segment that follows without a pause. Between segments without a Link the
// engine waits until everything has completed: the second starts at rest.
struct LinkEdge {
  OpId from{};  // in Link::from
  OpId to{};    // in Link::to
  bool operator==(const LinkEdge&) const = default;
};
struct Link {
  SegmentKind from{};
  SegmentKind to{};
  std::vector<LinkEdge> edges;  // sorted by (to, from)
  bool operator==(const Link&) const = default;
};

enum class LinkKind : u8 { h2d, d2h, disk_read, disk_write };
inline constexpr u32 link_count = 4;
constexpr std::string_view name(LinkKind kind) {
  constexpr std::array<std::string_view, link_count> names = {"h2d", "d2h", "disk_read", "disk_write"};
  return names[static_cast<u32>(kind)];
}

struct Budgets {
  Bytes device{};
  Bytes host{};
  Bytes disk{};

  Bytes of(Tier tier) const { return tier == Tier::device ? device : tier == Tier::host ? host : disk; }
  Bytes& of(Tier tier) { return tier == Tier::device ? device : tier == Tier::host ? host : disk; }
  bool operator==(const Budgets&) const = default;
};

// Use of one tier. For Tier::device: of each device.
struct TierUse {
  Bytes budget{};
  Bytes planned_peak{};  // arena size: highest frame end over all segments
  Bytes working_set{};   // declared: bytes that streaming itself needs, whatever is at rest in the tier
  bool operator==(const TierUse&) const = default;
};

// Lookup says that rows of a window travel, and not the window: in each micro-batch the distinct tokens'
// rows, in order of token. The array of tokens that the block reads then has their places among these rows. A
// chunk of rows ends with a page whose first four bytes are their count; only so many rows are copied.
struct Lookup {
  u32 window = none;     // none: there is no such window
  u32 block = 0;         // the embedding that reads it
  u32 row_elements = 0;  // columns of the table
  u32 rows_most = 0;     // in a micro-batch

  bool on() const { return window != none; }
  bool operator==(const Lookup&) const = default;
};
// Rows are read in whole blocks of 4 KiB, through a buffer of 1 MiB.
inline constexpr u64 looked_up_row_bytes_max = mib - 2 * frame_alignment;
constexpr Bytes lookup_bytes(const Lookup& lookup, Precision precision) {
  const u64 rows = values_bytes(u64{lookup.rows_most} * lookup.row_elements, precision);
  return Bytes{round_up(rows, frame_alignment) + frame_alignment};
}
// The count within a chunk of rows.
inline const u32& row_count(std::span<const std::byte> rows) {
  return *reinterpret_cast<const u32*>(rows.data() + rows.size() - frame_alignment);
}

struct Plan {
  Precision precision = Precision::fp32;
  StateSlots state_slots;
  u32 micro_batches = 1;  // per step, of all nodes together
  u32 sweeps = 1;
  u32 pieces = 1;   // of a micro-batch: ops of a block's pass over it
  u32 devices = 1;  // of each node
  Parallel parallel = Parallel::data;
  u32 nodes = 1;  // micro-batches are dealt to the replicas of all nodes in turn
  u32 node = 0;   // whose plan this is: the others' plans have the same chunks
  // True if updates wait for the norm and overlap the next forward: to clip, or in fp16 to see an overflow.
  bool clipping = true;
  // True if updates do not wait, although the norm may change them: they assume that it does not. A step
  // whose norm says otherwise is trained again, from the last committed step.
  bool speculates = false;
  u64 chunk_elements = 0;  // target cut
  Lookup lookup;
  std::vector<Chunk> chunks;
  std::vector<Frame> homes;  // by ChunkId; persistent chunks only, else bytes 0
  // With more than 1, every trained chunk of the state has that many slots on disk, wherever its home is:
  // `slots` has the first, and each other is `second_slot` bytes after the one before. An op that names a
  // chunk's frame on disk means the slot with the newest content if it reads, and a slot that no commit
  // counts on if it writes. The third slot lets steps be committed while a save reads an earlier commit.
  u32 versions = 1;
  std::vector<Frame> slots;  // by ChunkId; empty: one version
  Bytes second_slot{};
  std::array<Segment, segment_count> segments;
  std::vector<Link> links;
  std::array<TierUse, tier_count> tiers{};
  // For device and host: bytes of the tier that streaming itself needs at each op of the step program. With
  // layers over devices, the mean of the devices.
  std::array<std::vector<u64>, 2> working_set;
  std::array<std::vector<u64>, 2> least_set;  // working_set without room to stream ahead

  const Chunk& chunk(ChunkId id) const { return chunks[index(id)]; }
  const Segment& segment(SegmentKind kind) const { return segments[static_cast<u32>(kind)]; }
  bool is_committed(ChunkId id) const { return !slots.empty() && slots[index(id)].bytes.value > 0; }
  u32 replicas() const { return replicas_of(parallel, devices); }
  u32 micro_batches_per_replica() const { return micro_batches / (replicas() * nodes); }
  u32 replica_of(u32 micro_batch) const { return micro_batch % replicas(); }
  u32 node_of(u32 micro_batch) const { return micro_batch / replicas() % nodes; }
  u32 device_of(u32 block, u32 micro_batch) const {
    return parallel == Parallel::layers ? block % devices : replica_of(micro_batch);
  }
  bool operator==(const Plan&) const = default;
};

// A byte of the disk costs as much time as this many bytes of a device's link: 25 GB/s of PCIe against 6 GB/s
// of a good drive.
inline constexpr u64 disk_weight = 4;

// Useful bytes that a segment moves over each link, summed over all devices, without those that it moves only
// in steps that are committed.
std::array<Bytes, link_count> link_bytes(const Plan&, SegmentKind);
// Most bytes that a lookup reads from the disk: whole blocks of 4 KiB. 0: the table rests in the host.
// Rows that do not fill blocks of 4 KiB may begin in one block and end in the next.
inline Bytes lookup_disk_bytes(const Plan& plan) {
  Bytes table{};
  for (u32 id = 0; id < plan.homes.size(); ++id)
    if (plan.chunks[id].window == plan.lookup.window && plan.homes[id].tier == Tier::disk)
      table += plan.homes[id].bytes;
  if (!plan.lookup.on() || table.value == 0) return {};
  const u64 row = values_bytes(plan.lookup.row_elements, plan.precision);
  const bool fills_blocks = row % frame_alignment == 0 || frame_alignment % row == 0;
  const u64 blocks = div_up(row, frame_alignment) + (fills_blocks ? 0 : 1);
  return std::min(table, Bytes{blocks * frame_alignment * plan.lookup.rows_most});
}
// Useful bytes that a segment moves over each link only in steps that are committed.
std::array<Bytes, link_count> persisted_bytes(const Plan&, SegmentKind);
// True if committing a step moves content that rests in memory. If not, a commit costs next to nothing.
bool persists_resting_state(const Plan&);
// Useful bytes that devices receive from other devices in a segment's collectives, summed.
Bytes comm_bytes(const Plan&, SegmentKind);
// Useful bytes that a node sends to others and receives from them in a segment.
struct NetBytes {
  Bytes sent{}, received{};
  bool operator==(const NetBytes&) const = default;
};
NetBytes net_bytes(const Plan&, SegmentKind);
// Useful bytes that devices receive from other devices in one collective, summed.
Bytes collective_bytes(const Plan&, std::span<const Operand>, OpKind);

// The plan as text: byte-identical for the same inputs, one line per op. This is the golden file.
std::string to_text(const Plan&);

}  // namespace tidepool
