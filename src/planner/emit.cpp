#include "planner/emit.h"

#include <algorithm>
#include <tuple>

#include "tidepool/check.h"

namespace tidepool {
namespace {

constexpr LaneId device_lane(LaneKind kind) { return {.device = 0, .kind = kind}; }
constexpr LaneId host_lane(LaneKind kind) { return {.device = host_device, .kind = kind}; }

// Finds the frame of a chunk in a tier at a position.
class Frames {
 public:
  Frames(const std::vector<Arc>& arcs, Tier tier, u64 chunks, i32 turn)
      : arcs_(arcs), tier_(tier), turn_(turn), by_first_(chunks) {
    for (u32 a = 0; a < arcs.size(); ++a) by_first_[index(arcs[a].first)].push_back(a);
  }

  Frame of_arc(u32 a) const { return {.tier = tier_, .offset = arcs_[a].offset, .bytes = arcs_[a].bytes}; }

  Frame at(ChunkId first, i32 position) const {
    for (u32 a : by_first_[index(first)]) {
      const Span s = arcs_[a].span;  // not `placed`: a tail may overlap the next arc's early start
      if (position <= s.end && position >= s.begin) return of_arc(a);
      if (s.begin < 0 && position >= s.begin + turn_) return of_arc(a);
    }
    CHECK(false, index(first), position, name(tier_));
    return {};
  }

 private:
  const std::vector<Arc>& arcs_;
  Tier tier_;
  i32 turn_;
  std::vector<std::vector<u32>> by_first_;
};

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
    sort_movements();
    for (u32 s = 0; s < segment_count; ++s) emit_segment(static_cast<SegmentKind>(s));
  }

 private:
  // ---- homes ------------------------------------------------------------------------------------

  void set_homes() {
    plan_.homes = host_.homes;
    for (u32 id = 0; id < layout_.chunks.size(); ++id) {
      const Chunk& chunk = layout_.chunks[id];
      if (!is_persistent(chunk.kind)) continue;
      if (device_.home[chunk.window]) plan_.homes[id] = device_chunk(ChunkId{id}, 0);
      if (host_.home_arcs[id] != none) plan_.homes[id] = host_frames_.of_arc(host_.home_arcs[id]);
      CHECK(plan_.homes[id].bytes == chunk.bytes, id, plan_.homes[id].bytes.value, chunk.bytes.value);
    }
  }

  Frame part(Frame group, ChunkId first, ChunkId chunk) const {
    group.offset += layout_.bytes(first, index(chunk) - index(first)).value;
    group.bytes = layout_.chunk(chunk).bytes;
    return group;
  }

  static bool has_cuts(const Chunk& chunk) { return chunk.window != none; }
  ChunkId group_of(ChunkId id) const {
    const Chunk& chunk = layout_.chunk(id);
    return has_cuts(chunk) ? ChunkId{index(id) - chunk.cut} : id;
  }
  Frame device_chunk(ChunkId id, i32 position) const {
    return part(device_frames_.at(group_of(id), position), group_of(id), id);
  }

  // ---- order --------------------------------------------------------------------------------------

  void sort_movements() {
    movements_ = host_.movements;
    const auto stage = [](const Movement& m) {
      return m.to.tier == Tier::host ? (m.from.tier == Tier::disk ? 0 : 1) : 2;
    };
    std::stable_sort(movements_.begin(), movements_.end(), [&](const Movement& a, const Movement& b) {
      return std::tuple(a.when, stage(a), a.need) < std::tuple(b.when, stage(b), b.need);
    });
  }

  u8 segments_of(const ProgramOp& op) const {
    if (op.kind == OpKind::update)
      return program_.options.clipping ? in_body | in_drain : in_first | in_body;
    const bool evaluated = op.sweep == 0 && (op.kind == OpKind::load_batch || op.kind == OpKind::forward ||
                                             (op.kind == OpKind::backward && is_head(op.block)));
    return in_first | in_body | (evaluated ? in_evaluation : 0);
  }
  bool is_head(u32 block) const { return block + 1 == graph_.blocks.size(); }

  void emit_segment(SegmentKind kind) {
    segment_ = &plan_.segments[static_cast<u32>(kind)];
    *segment_ = {.kind = kind};
    versions_.assign(layout_.chunks.size(), 0);
    const u8 bit = static_cast<u8>(1 << static_cast<u8>(kind));
    u64 m = 0;
    const auto emit_movements = [&](Moment until) {
      for (; m < movements_.size() && movements_[m].when <= until; ++m)
        if (movements_[m].segments & bit) emit_movement(movements_[m]);
    };
    for (i32 p = 0; p < program_.positions(); ++p) {
      emit_movements({p, Phase::before});
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      if (segments_of(op) & bit) emit_program_op(op, p);
      emit_movements({p, Phase::after});
    }
  }

  // ---- ops ----------------------------------------------------------------------------------------

  void begin(Op op) {
    op_ = op;
    op_.operands_begin = static_cast<u32>(segment_->operands.size());
  }
  void end() {
    op_.operands_count = static_cast<u32>(segment_->operands.size()) - op_.operands_begin;
    segment_->ops.push_back(op_);
    for (const Operand& o : segment_->operands_of(op_))
      if (writes(o.access) && !is_movement(op_.kind))
        for (u32 i = 0; i < o.count; ++i) ++versions_[index(o.first) + i];
  }
  static bool is_movement(OpKind kind) {
    return kind == OpKind::copy || kind == OpKind::read || kind == OpKind::write;
  }

  // A writer leaves the next version; a movement carries the one there is.
  void operand(ChunkId first, u32 count, Access access, Frame frame) {
    const u32 current = versions_[index(first)];
    const bool makes = access == Access::write && !is_movement(op_.kind);
    segment_->operands.push_back({.first = first,
                                  .count = count,
                                  .version = makes ? current + 1 : current,
                                  .access = access,
                                  .frame = frame});
  }

  void device_operand(ChunkId first, u32 count, Access access, i32 position) {
    operand(first, count, access, device_frames_.at(first, position));
  }

  Frame place_frame(const Movement& m, const Place& place) const {
    if (place.tier == Tier::disk) return place.frame;
    if (place.tier == Tier::host) return host_frames_.of_arc(place.arc);
    return part(device_frames_.of_arc(place.arc), device_.arcs[place.arc].first, m.chunk);
  }

  void emit_movement(const Movement& m) {
    const Tier from = m.from.tier, to = m.to.tier;
    Op op{.kind = OpKind::copy};
    if (from == Tier::disk) op = {.kind = OpKind::read, .lane = host_lane(LaneKind::disk_read)};
    if (to == Tier::disk) op = {.kind = OpKind::write, .lane = host_lane(LaneKind::disk_write)};
    if (to == Tier::device) op.lane = device_lane(LaneKind::h2d);
    if (from == Tier::device) op.lane = device_lane(LaneKind::d2h);
    const Chunk& chunk = layout_.chunk(m.chunk);
    op.block = chunk.block;
    op.window = chunk.window;
    op.cut = chunk.cut;
    begin(op);
    operand(m.chunk, 1, Access::read, place_frame(m, m.from));
    operand(m.chunk, 1, Access::write, place_frame(m, m.to));
    end();
  }

  void emit_program_op(const ProgramOp& op, i32 p) {
    Op out{.kind = op.kind,
           .lane = device_lane(LaneKind::compute),
           .block = op.block,
           .micro_batch = op.micro_batch,
           .window = op.window,
           .cut = op.cut};
    const u32 m = op.micro_batch == none ? none : op.micro_batch % program_.sweep_micro_batches;
    switch (op.kind) {
      case OpKind::load_batch:
        out.lane = host_lane(LaneKind::host);
        begin(out);
        operand(layout_.batch[m], 1, Access::write, host_frames_.at(layout_.batch[m], p));
        break;
      case OpKind::forward:
        begin(out);
        emit_forward(op, m, p);
        break;
      case OpKind::backward:
        if (segment_->kind == SegmentKind::evaluation) {
          out.kind = OpKind::forward;
          begin(out);
          emit_forward(op, m, p);
        } else {
          begin(out);
          emit_backward(op, m, p);
        }
        break;
      case OpKind::gradient:
        begin(out);
        emit_gradient(op, p);
        break;
      case OpKind::norm:
        begin(out);
        scalars(Access::read_write, p);
        break;
      case OpKind::update:
        out.lane = device_.home[op.window] ? device_lane(LaneKind::compute) : host_lane(LaneKind::host);
        out.steps_back = program_.options.clipping ? 1 : 0;
        begin(out);
        emit_update(op, p);
        break;
      default:
        CHECK(false, static_cast<int>(op.kind));
    }
    end();
  }

  void scalars(Access access, i32 p) { operand(layout_.scalars, 1, access, host_frames_.at(layout_.scalars, p)); }
  void workspace(i32 p) { device_operand(layout_.workspace, 1, Access::write, p); }

  void params(u32 block, i32 p) {
    for (u32 w : graph_.blocks[block].windows)
      device_operand(layout_.windows[w].param, layout_.windows[w].cuts, Access::read, p);
  }
  bool reads_batch(u32 block) const { return block == 0 || is_head(block); }
  u64 at(u32 block, u32 m) const { return u64{block} * program_.sweep_micro_batches + m; }

  void emit_forward(const ProgramOp& op, u32 m, i32 p) {
    if (reads_batch(op.block)) device_operand(layout_.batch[m], 1, Access::read, p);
    params(op.block, p);
    if (op.block != 0) device_operand(layout_.activation[at(op.block, m)], 1, Access::read, p);
    if (!is_head(op.block)) device_operand(layout_.activation[at(op.block + 1, m)], 1, Access::write, p);
    if (device_.keep[at(op.block, m)] && segment_->kind != SegmentKind::evaluation)
      device_operand(layout_.kept[at(op.block, m)], 1, Access::write, p);
    workspace(p);
    if (is_head(op.block)) scalars(op.first_accumulation ? Access::write : Access::read_write, p);
  }

  void emit_backward(const ProgramOp& op, u32 m, i32 p) {
    if (reads_batch(op.block)) device_operand(layout_.batch[m], 1, Access::read, p);
    if (op.block != 0) params(op.block, p);
    if (op.block != 0) device_operand(layout_.activation[at(op.block, m)], 1, Access::read, p);
    if (device_.keep[at(op.block, m)]) device_operand(layout_.kept[at(op.block, m)], 1, Access::read, p);
    device_operand(layout_.activation_grad[m], 1, is_head(op.block) ? Access::write : Access::read_write, p);
    for (u32 w : graph_.blocks[op.block].windows)
      device_operand(layout_.windows[w].grad_accum[use_of(op.block, w)], layout_.windows[w].cuts,
                     op.first_accumulation ? Access::write : Access::read_write, p);
    workspace(p);
    if (is_head(op.block)) scalars(op.first_accumulation ? Access::write : Access::read_write, p);
  }

  u32 use_of(u32 block, u32 window) const {
    u32 use = 0;
    for (u32 b = 0; b < block; ++b)
      for (u32 w : graph_.blocks[b].windows) use += w == window;
    return use;
  }

  void emit_gradient(const ProgramOp& op, i32 p) {
    const WindowChunks& chunks = layout_.windows[op.window];
    const bool in_place = layout_.precision == Precision::fp32;
    for (u64 use = 0; use < chunks.grad_accum.size(); ++use)
      device_operand(chunks.grad_accum[use], chunks.cuts,
                     in_place && use == 0 ? Access::read_write : Access::read, p);
    if (!in_place) device_operand(chunks.grad, chunks.cuts, Access::write, p);
    scalars(Access::read_write, p);
  }

  void emit_update(const ProgramOp& op, i32 p) {
    const bool on_device = device_.home[op.window];
    const auto frame = [&](ChunkId id) { return on_device ? device_chunk(id, p) : host_frames_.at(id, p); };
    const ChunkId gradient = layout_.gradient(op.window, op.cut);
    operand(gradient, 1, Access::read, frame(gradient));
    for (ChunkId id : layout_.state(op.window, op.cut)) operand(id, 1, Access::read_write, frame(id));
    // Without clipping nothing that an update reads comes from another op's scalars, and waiting for
    // them would tie the next gradient to this update.
    if (program_.options.clipping) scalars(Access::read, p);
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
  Segment* segment_ = nullptr;
  std::vector<u32> versions_;
  Op op_;
};

}  // namespace

void emit_segments(const ResidenceInput& in, const DeviceTier& device, const HostTier& host, Plan& plan) {
  Emitter(in, device, host, plan).emit();
}

}  // namespace tidepool
