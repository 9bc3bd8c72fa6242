// Makes the segments of a plan from places: ops with operands, frames and versions.
#include "planner/emit.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "planner/commit_ops.h"
#include "planner/frames.h"
#include "planner/move_order.h"
#include "planner/segment_writer.h"

namespace tidepool {
namespace {

constexpr LaneId device_lane(LaneKind kind, u32 device) {
  return {.device = static_cast<u16>(device), .kind = kind};
}
constexpr LaneId host_lane(LaneKind kind) { return {.device = host_device, .kind = kind}; }

class Emitter {
 public:
  Emitter(const ResidenceInput& in, const DeviceTier& device, const HostTier& host, Plan& plan)
      : in_(in),
        graph_(in.graph),
        layout_(in.layout),
        program_(in.program),
        device_(device),
        host_(host),
        plan_(plan),
        device_frames_(device.arcs, Tier::device, in.layout.chunks.size(), in.program.positions()),
        host_frames_(host.arcs, Tier::host, in.layout.chunks.size(), in.program.positions()) {}

  void emit() {
    set_homes();
    movements_ = ordered_movements(host_);
    if (sharded()) gathers_ = ordered_gathers(in_, device_, movements_);
    persists_ = ordered_persists(in_, device_, host_);
    for (u32 s = 0; s < segment_count; ++s) {
      const SegmentKind kind = static_cast<SegmentKind>(s);
      plan_.segments[s].kind = kind;
      if (layout_.trains || kind == SegmentKind::evaluation) emit_segment(kind);
    }
  }

 private:
  // ---- homes ------------------------------------------------------------------------------------
  void set_homes() {
    plan_.homes = host_.homes;
    plan_.versions = host_.versions;
    plan_.slots = host_.slots;
    plan_.second_slot = host_.second_slot;
    for (u32 id = 0; id < layout_.chunks.size(); ++id) {
      const Chunk& chunk = layout_.chunks[id];
      if (!is_persistent(chunk)) continue;
      if (chunk.kind != Kind::param && chunk.owner != layout_.node) continue;  // its owner has it
      if (device_.home[chunk.window]) plan_.homes[id] = home_on_device(ChunkId{id});
      if (host_.home_arcs[id] != none) plan_.homes[id] = host_frames_.of_arc(host_.home_arcs[id]);
      CHECK(plan_.homes[id].bytes == chunk.bytes, id, plan_.homes[id].bytes.value, chunk.bytes.value);
    }
  }

  // ---- frames of one of several devices -------------------------------------------------------------

  bool sharded() const { return layout_.replicas > 1; }
  bool layers() const { return program_.options.parallel == Parallel::layers; }

  OnDevice on_device(u32 a, u32 replica) const {
    return tidepool::on_device(layout_, device_.arcs[a], replica);
  }
  OnDevice part(const OnDevice& whole, ChunkId first, u32 count) const {
    return part_of(layout_, whole, first, count);
  }

  // A replica's shard of a window's chunks of one kind. `first` is the first chunk of that kind. `device`:
  // with layers over devices, where it is.
  OnDevice shard(ChunkId first, u32 replica, i32 position, u32 device) const {
    return on_device(device_frames_.arc_at(first, sharded(), position, device), replica);
  }

  Frame owned_chunk(ChunkId id, i32 position) const {
    const Chunk& chunk = layout_.chunk(id);
    const u32 owner = layout_.windows[chunk.window].owner(chunk.cut);
    const u32 device = program_.options.device_of(program_.first_reader(chunk.window));
    return part(shard(ChunkId{index(id) - chunk.cut}, owner, position, device), id, 1).frame;
  }
  Frame home_on_device(ChunkId id) const {
    const Chunk& chunk = layout_.chunk(id);
    return owned_chunk(id,
                       layout_.windows[chunk.window].trains ? program_.update[chunk.window][chunk.cut] : 0);
  }

  // ---- order --------------------------------------------------------------------------------------

  u8 segments_of(const ProgramOp& op) const {
    if (is_update(op.kind)) return segments_of_updates();
    const bool evaluated = op.sweep == 0 && (op.kind == OpKind::load_batch || op.kind == OpKind::forward ||
                                             (op.kind == OpKind::backward && is_head(op.block)));
    return in_first | in_body | (evaluated ? in_evaluation : 0);
  }
  u8 segments_of_updates() const {
    return program_.options.clipping ? in_body | in_drain : in_first | in_body;
  }
  bool is_head(u32 block) const { return block + 1 == graph_.blocks.size(); }

  void emit_segment(SegmentKind kind) {
    segment_ = &plan_.segments[static_cast<u32>(kind)];
    *segment_ = {.kind = kind};
    out_.emplace(*segment_, layout_.chunks.size());
    has_scalars_.assign(layout_.devices, false);
    const u8 bit = static_cast<u8>(1 << static_cast<u8>(kind));
    u64 m = 0, g = 0, saved = segments_of_updates() & bit ? 0 : persists_.size();
    const bool commits = plan_.versions > 1 && segments_of_updates() & bit;
    const auto emit_movements = [&](Moment until) {
      for (; m < movements_.size() && movements_[m].when <= until; ++m)
        if (movements_[m].segments & bit) emit_movement(movements_[m]);
      for (; g < gathers_.size() && gathers_[g].when <= until; ++g)
        if (gathers_[g].segments & bit) emit_gather(gathers_[g]);
      for (; saved < persists_.size() && persists_[saved].when <= until; ++saved)
        emit_persist(persists_[saved]);
      if (commits && until == moment_of_commit(program_, persists_))
        emit_commit(*out_, plan_, layout_.scalars, host_frames_.at(layout_.scalars, until.position));
    };
    for (i32 p = 0; p < program_.positions(); ++p) {
      emit_movements({p, Phase::before});
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      if (segments_of(op) & bit) emit_program_op(op, p);
      emit_movements({p, Phase::after});
    }
  }

  // ---- ops ----------------------------------------------------------------------------------------

  void begin(const Op& op) { out_->begin(op); }
  void end() { out_->end(); }
  void operand(ChunkId first, u32 count, Access access, const Frame& frame) {
    out_->operand(first, count, access, frame);
  }
  void operand(const OnDevice& what, Access access) {
    if (what.count > 0) operand(what.first, what.count, access, what.frame);
  }
  // `first` is replica 0's chunk, or the chunk of every replica.
  void device_operand(ChunkId first, Access access, i32 position) {
    const u32 device = layers() ? device_of_op_ : 0;
    operand(on_device(device_frames_.arc_at(first, false, position, device), replica_), access);
  }

  // An arc of the host holds one chunk, or passes several on that are no larger.
  Frame host_frame(u32 arc, ChunkId chunk) const {
    Frame frame = host_frames_.of_arc(arc);
    frame.bytes = layout_.chunk(chunk).bytes;
    return frame;
  }

  Frame place_frame(const Movement& m, const Place& place) const {
    if (place.tier == Tier::disk) return place.frame;
    if (place.tier == Tier::host) return host_frame(place.arc, m.chunk);
    const u32 replica = place.device - device_.arcs[place.arc].device;
    return part(on_device(place.arc, replica), m.chunk, 1).frame;
  }

  void emit_movement(const Movement& m) {
    if (m.looks_up != none) return write_lookup(*out_, layout_, m.chunk, place_frame(m, m.to), m.looks_up);
    if (m.from.node != none) return emit_receive(m.chunk, host_frames_.of_arc(m.to.arc), m.from.node);
    if (m.to.node != none) return emit_send(m.chunk, host_frames_.of_arc(m.from.arc), m.to.node);
    const Tier from = m.from.tier, to = m.to.tier;
    Op op{.kind = OpKind::copy};
    if (from == Tier::disk) op = {.kind = OpKind::read, .lane = host_lane(LaneKind::disk_read)};
    if (to == Tier::disk) op = {.kind = OpKind::write, .lane = host_lane(LaneKind::disk_write)};
    if (to == Tier::device) op.lane = device_lane(LaneKind::h2d, m.to.device);
    if (from == Tier::device) op.lane = device_lane(LaneKind::d2h, m.from.device);
    const Chunk& chunk = layout_.chunk(m.chunk);
    op.block = chunk.block, op.window = chunk.window, op.cut = chunk.cut;
    begin(op);
    operand(m.chunk, 1, Access::read, place_frame(m, m.from));
    operand(m.chunk, 1, Access::write, place_frame(m, m.to));
    end();
  }

  void emit_persist(const Persist& persist) {
    const u32 buffer = persist.buffer == none ? none : host_.persist_buffers[persist.buffer];
    tidepool::emit_persist(*out_, plan_, persist.chunk,
                           buffer == none ? Frame{} : host_frame(buffer, persist.chunk));
  }

  void emit_send(ChunkId id, const Frame& frame, u32 peer) {
    write_send(*out_, layout_.chunk(id), id, frame, peer, program_.options.clipping);
  }
  void emit_receive(ChunkId id, const Frame& frame, u32 peer) {
    write_receive(*out_, layout_.chunk(id), id, frame, peer, program_.options.clipping);
  }

  void emit_gather(const Gather& g) {
    const WindowChunks& chunks = layout_.windows[g.window];
    begin({.kind = OpKind::all_gather, .lane = host_lane(LaneKind::comm), .window = g.window});
    const auto own = [&](u32 replica) { return offset_id(chunks.param, chunks.shard_begin(replica)); };
    const bool home = device_.home[g.window];
    for (u32 r = 0; r < layout_.replicas; ++r)
      if (chunks.shard_size(r) > 0)
        operand(home ? shard(chunks.param, r, g.when.position, 0)
                     : part(on_device(g.arc, r), own(r), chunks.shard_size(r)),
                Access::read);
    for (u32 r = 0; r < layout_.replicas; ++r) {
      const OnDevice window = on_device(g.arc, r);
      if (home) {
        operand(window, Access::write);
        continue;
      }
      const u32 end = chunks.shard_begin(r) + chunks.shard_size(r);
      operand(part(window, chunks.param, chunks.shard_begin(r)), Access::write);
      operand(part(window, offset_id(chunks.param, end), chunks.cuts - end), Access::write);
    }
    end();
  }

  void emit_reduce_scatter(const ProgramOp& op, i32 p) {
    const WindowChunks& chunks = layout_.windows[op.window];
    const u32 use = use_of(graph_, op.block, op.window);
    for (replica_ = 0; replica_ < layout_.replicas; ++replica_)
      device_operand(chunks.local_accum[use], Access::read, p);
    for (u32 r = 0; r < layout_.replicas; ++r) operand(shard(chunks.grad_accum[use], r, p, 0), Access::write);
  }

  // Emits one op per replica, with its own micro-batches or shards, or one op for all devices.
  void emit_program_op(const ProgramOp& op, i32 p) {
    const bool of_cut = is_update(op.kind) || op.kind == OpKind::combine;
    if (of_cut && !layout_.owns(op.window, op.cut)) return;
    if (op.kind == OpKind::norm && layout_.nodes > 1) exchange_scalars(p);
    const bool once = op.kind == OpKind::norm || of_cut || op.kind == OpKind::reduce_scatter;
    for (u32 r = 0; r < (once ? 1 : layout_.replicas); ++r) {
      if (op.kind == OpKind::gradient && layout_.windows[op.window].shard_size(r) == 0) continue;
      replica_ = of_cut ? layout_.windows[op.window].owner(op.cut) : r;
      device_of_op_ = layers() ? op.device : replica_;
      emit_program_op_of_replica(op, p);
    }
  }

  void emit_program_op_of_replica(const ProgramOp& op, i32 p) {
    Op out{.kind = op.kind,
           .lane = device_lane(LaneKind::compute, device_of_op_),
           .block = op.block,
           .micro_batch = op.micro_batch == none ? none : program_.step_micro_batch(op.micro_batch, replica_),
           .piece = op.piece,
           .window = op.window,
           .cut = op.cut};
    const u32 m = op.micro_batch == none ? none : op.micro_batch % program_.sweep_micro_batches;
    switch (op.kind) {
      case OpKind::load_batch:
        out.lane = host_lane(LaneKind::host);
        begin(out);
        operand(offset_id(layout_.batch[m], replica_), 1, Access::write,
                host_frames_.at(offset_id(layout_.batch[m], replica_), p));
        break;
      case OpKind::forward:
      case OpKind::recall:
      case OpKind::backward:
        if (segment_->kind == SegmentKind::evaluation) out.kind = OpKind::forward;
        begin(out);
        emit_pass(op, out.kind, m, p);
        break;
      case OpKind::gradient:
        begin(out);
        emit_gradient(op, p);
        break;
      case OpKind::norm:
        begin(out);
        make_scalars(0, p);
        for (u32 other = 1; other < layout_.devices; ++other) read_scalars(other, p);
        for (u32 node = 0; node < layout_.nodes; ++node)
          if (node != layout_.node) operand(node_scalars(node), 1, Access::read, node_frame(node, p));
        break;
      case OpKind::combine:
        out.lane = host_lane(LaneKind::host);
        begin(out);
        emit_combine(op, p);
        break;
      case OpKind::reduce_scatter:
        out.lane = host_lane(LaneKind::comm);
        begin(out);
        emit_reduce_scatter(op, p);
        break;
      case OpKind::update:
      case OpKind::direction:
      case OpKind::orthogonalize:
        if (op.kind != OpKind::orthogonalize && !device_.home[op.window])
          out.lane = host_lane(LaneKind::host);
        out.steps_back = program_.options.clipping ? 1 : 0;
        begin(out);
        op.kind == OpKind::orthogonalize ? emit_orthogonalize(op, p) : emit_update(op, p);
        break;
      default:
        CHECK(false, static_cast<int>(op.kind));
    }
    end();
  }

  void scalars(u32 device, Access access, i32 p) {
    const ChunkId id = offset_id(layout_.scalars, device);
    operand(id, 1, access, host_frames_.at(id, p));
  }
  // Adds to the device's scalars of the step. The first op that does so begins them.
  void make_scalars(u32 device, i32 p) {
    scalars(device, has_scalars_[device] ? Access::read_write : Access::write, p);
    has_scalars_[device] = true;
  }
  void read_scalars(u32 device, i32 p) {
    if (has_scalars_[device]) scalars(device, Access::read, p);
  }
  void workspace(i32 p) {
    device_operand(offset_id(layout_.workspace, layers() ? device_of_op_ : 0), Access::write, p);
  }

  ChunkId node_scalars(u32 node) const { return offset_id(layout_.node_scalars, node); }
  Frame node_frame(u32 node, i32 p) const { return host_frames_.at(node_scalars(node), p); }

  // Packs this node's losses and partial sums, and exchanges them with every other node.
  void exchange_scalars(i32 p) {
    const u32 self = layout_.node;
    begin({.kind = OpKind::pack, .lane = host_lane(LaneKind::host)});
    for (u32 d = 0; d < layout_.devices; ++d) read_scalars(d, p);
    operand(node_scalars(self), 1, Access::write, node_frame(self, p));
    end();
    for (u32 i = 1; i < layout_.nodes; ++i) {
      const u32 node = (self + i) % layout_.nodes;
      emit_send(node_scalars(self), node_frame(self, p), node);
    }
    for (u32 node = 0; node < layout_.nodes; ++node)
      if (node != self) emit_receive(node_scalars(node), node_frame(node, p), node);
  }

  void params(u32 block, u32 m, i32 p) {
    for (u32 w : graph_.blocks[block].windows)
      device_operand(w == layout_.lookup.window ? layout_.rows[m] : layout_.windows[w].param, Access::read,
                     p);
  }
  void stream(const StreamUse& use, const ProgramOp& op, i32 p) {
    const bool goes_on = graph_.streams[use.stream].whole && op.piece != 0 && writes(use.access);
    device_operand(layout_.stream(use.stream, program_.unit(op)), goes_on ? Access::read_write : use.access,
                   p);
  }
  u64 kept_of(const ProgramOp& op) const {
    return u64{op.block} * program_.sweep_units() + program_.unit(op);
  }
  void past(const ProgramOp& op, i32 p) {
    if (graph_.blocks[op.block].past.value == 0) return;
    const bool begins = op.piece == 0 && op.kind != OpKind::backward;
    device_operand(offset_id(layout_.past, layers() ? device_of_op_ : 0),
                   begins ? Access::write : Access::read_write, p);
  }

  // An op of a block's pass. `kind`: in an evaluation the head's backward is a forward.
  void emit_pass(const ProgramOp& op, OpKind kind, u32 m, i32 p) {
    const Block& block = graph_.blocks[op.block];
    const bool backward = kind == OpKind::backward;
    if (reads_batch(graph_, block)) device_operand(layout_.batch[m], Access::read, p);
    if (!backward || block.kind != BlockKind::embedding) params(op.block, m, p);
    const auto& uses = kind == OpKind::forward ? block.forward_streams : block.backward_streams;
    const auto streams = [&](bool gradients) {
      for (const StreamUse& use : uses)
        if (is_gradient_stream(graph_.streams[use.stream].kind) == gradients) stream(use, op, p);
    };
    streams(false);
    if (segment_->kind != SegmentKind::evaluation && device_.keep[kept_of(op)])
      device_operand(layout_.kept[kept_of(op)], kind == OpKind::forward ? Access::write : Access::read, p);
    if (backward) {
      streams(true);
      for (u32 w : block.windows)
        if (layout_.windows[w].trains)
          device_operand(layout_.windows[w].local_accum[use_of(graph_, op.block, w)],
                         op.first_accumulation ? Access::write : Access::read_write, p);
    }
    past(op, p);
    workspace(p);
    if (is_head(op.block)) make_scalars(device_of_op_, p);
  }

  void emit_gradient(const ProgramOp& op, i32 p) {
    const WindowChunks& chunks = layout_.windows[op.window];
    const bool in_place = !layout_.state_slots.has(Kind::grad);
    for (u64 use = 0; use < chunks.grad_accum.size(); ++use)
      operand(shard(chunks.grad_accum[use], replica_, p, op.device),
              in_place && use == 0 ? Access::read_write : Access::read);
    if (!in_place) operand(shard(chunks.grad, replica_, p, op.device), Access::write);
    make_scalars(device_of_op_, p);
  }

  void emit_combine(const ProgramOp& op, i32 p) {
    const WindowChunks& chunks = layout_.windows[op.window];
    for (u32 use = 0; use < chunks.grad_accum.size(); ++use)
      for (u32 node = 0; node < layout_.nodes; ++node) {
        const bool own = node == layout_.node;
        const ChunkId part =
            own ? offset_id(chunks.grad_accum[use], op.cut)
                : offset_id(chunks.parts, (use * layout_.nodes + node) * chunks.cuts + op.cut);
        operand(part, 1, Access::read_write, host_frames_.at(part, p));
      }
    const ChunkId sum = layout_.gradient(op.window, op.cut);
    if (layout_.state_slots.has(Kind::grad)) operand(sum, 1, Access::write, host_frames_.at(sum, p));
    make_scalars(0, p);
  }

  void emit_update(const ProgramOp& op, i32 p) {
    const bool at_home = device_.home[op.window];
    const auto frame = [&](ChunkId id) { return at_home ? owned_chunk(id, p) : host_frames_.at(id, p); };
    const ChunkId gradient = layout_.gradient(op.window, op.cut);
    const UpdatePart part = program_.part(op);
    operand(gradient, 1, part == UpdatePart::direction ? Access::read_write : Access::read, frame(gradient));
    for (ChunkId id : layout_.state(op.window, op.cut)) {
      const bool of_rule = layout_.state_slots.is_optimizer_slot(layout_.chunk(id).kind);
      if (part != UpdatePart::whole && of_rule != (part == UpdatePart::direction)) continue;
      const bool made = made_by_update(layout_.chunk(id).kind, layout_.precision);
      operand(id, 1, made ? Access::write : Access::read_write, frame(id));
    }
    // Without clipping an update reads nothing from another op's scalars. Waiting for them would make the
    // next gradient wait for this update.
    if (program_.options.clipping) scalars(0, Access::read, p);
  }

  void emit_orthogonalize(const ProgramOp& op, i32 p) {
    const ChunkId gradient = layout_.gradient(op.window, op.cut);
    device_.home[op.window] ? operand(gradient, 1, Access::read_write, owned_chunk(gradient, p))
                            : device_operand(gradient, Access::read_write, p);
    workspace(p);
  }

  const ResidenceInput& in_;
  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
  const HostTier& host_;
  Plan& plan_;
  Frames device_frames_, host_frames_;
  std::vector<Movement> movements_;
  std::vector<Gather> gathers_;
  std::vector<Persist> persists_;
  Segment* segment_ = nullptr;
  std::optional<SegmentWriter> out_;
  u32 replica_ = 0, device_of_op_ = 0;
  std::vector<bool> has_scalars_;  // by device: made in this segment
};

}  // namespace

void emit_segments(const ResidenceInput& in, const DeviceTier& device, const HostTier& host, Plan& plan) {
  Emitter(in, device, host, plan).emit();
}

}  // namespace tidepool
