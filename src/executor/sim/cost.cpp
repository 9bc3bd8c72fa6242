// CostModel derives each op's flow from its operands' bytes and the machine's rates.
#include "executor/sim/cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tidepool/tensor_matrices.h"

namespace tidepool {
namespace {

constexpr u32 cores = 0, dram = 1, fixed_resources = 5;
enum DeviceResource : u32 { compute, h2d, d2h, both, interconnect, device_resources };

// As in the core pool: work that feeds others goes first.
constexpr u32 feeding = 0, computing = 1;

// A commit is small, but the disk is flushed before and after it is written.
constexpr double commit_seconds = 0.01;

u32 devices_of(const Plan& plan) {
  u32 count = plan.devices;
  for (const Segment& segment : plan.segments)
    for (const Op& op : segment.ops)
      if (op.lane.device != host_device) count = std::max<u32>(count, op.lane.device + 1u);
  return count;
}

// Predicts the seconds that were not measured.
std::vector<BlockSeconds> complete(std::vector<BlockSeconds> blocks, const ModelGraph& graph,
                                   const Machine& machine) {
  CHECK(blocks.empty() || blocks.size() == graph.blocks.size(), blocks.size());
  blocks.resize(graph.blocks.size());
  for (u32 b = 0; b < blocks.size(); ++b) {
    const Block& block = graph.blocks[b];
    const auto seconds = [&](const std::vector<KernelCost>& kernels) {
      return kernel_seconds(kernels, machine, graph.precision);
    };
    BlockSeconds& out = blocks[b];
    const double backward = seconds(block.backward_kernels);
    if (out.forward == 0) out.forward = seconds(block.forward_kernels);
    if (out.backward == 0) out.backward = backward;
    if (out.backward_recompute == 0) out.backward_recompute = backward + seconds(block.recompute_kernels);
    if (out.recall == 0) out.recall = seconds(block.recall_kernels);
  }
  return blocks;
}

// [window][cut]: seconds of a device to orthogonalize a chunk set's direction; 0: its rule does not.
std::vector<std::vector<double>> orthogonalize_seconds(const Plan& plan, const ModelGraph& graph,
                                                       const Machine& machine, std::vector<double> of_shape) {
  of_shape.resize(graph.matrix_costs.size());
  for (u32 i = 0; i < of_shape.size(); ++i)
    if (of_shape[i] == 0)
      of_shape[i] = kernel_seconds(graph.matrix_costs[i].kernels, machine, graph.precision);
  std::vector<std::vector<double>> out(graph.windows.size());
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.kind != Kind::param) continue;
    double& seconds = out[chunk.window].emplace_back(0);
    if (graph.rules[chunk.rule].place != UpdatePlace::streamed || !graph.windows[chunk.window].trainable)
      continue;
    for (const MatrixPlace& matrix : matrices_between(graph.windows[chunk.window], chunk.element_begin,
                                                      chunk.element_begin + chunk.elements))
      seconds += of_shape[shape_of(graph, matrix)];
  }
  return out;
}

}  // namespace

CostModel::CostModel(const Plan& plan, const ModelGraph& graph, const Machine& machine, OpSeconds measured)
    : plan_(plan),
      graph_(graph),
      machine_(machine),
      blocks_(complete(std::move(measured.blocks), graph, machine)),
      orthogonalize_(orthogonalize_seconds(plan, graph, machine, std::move(measured.matrices))) {
  for (const UpdateRule& rule : graph.rules) gradient_reads_.push_back(rule.gradient_reads);
  const u32 devices = devices_of(plan);
  // A network of unknown rate takes no time: other lanes then decide between plans.
  constexpr double unlimited = 1e18;
  const double network = machine.network.bytes_per_s > 0 ? machine.network.bytes_per_s : unlimited;
  capacities_ = {1.0, machine.host.memory_bytes_per_s, 1.0, network, network};
  const DiskRates& disk = machine.disk;
  disk_mixed_ = disk.mixed_bytes_per_s * (1.0 / disk.read_bytes_per_s + 1.0 / disk.write_bytes_per_s) / 2.0;
  for (u32 d = 0; d < devices; ++d) {
    const double across = machine.copies.interconnect_bytes_per_s;
    capacities_.insert(capacities_.end(),
                       {1.0, machine.copies.h2d_bytes_per_s, machine.copies.d2h_bytes_per_s,
                        machine.copies.both_bytes_per_s, across > 0 ? across : 1.0});  // 1: no op needs it
  }
  switch_of_.assign(devices, none);
  if (machine.copies.switch_bytes_per_s <= 0) return;
  for (u32 s = 0; s < machine.copies.switches.size(); ++s) {
    for (u32 d : machine.copies.switches[s])
      if (d < devices) switch_of_[d] = static_cast<u32>(capacities_.size());
    capacities_.insert(capacities_.end(), 2, machine.copies.switch_bytes_per_s);
  }
}

u32 CostModel::device_resource(u32 device, u32 which) const {
  return fixed_resources + device * device_resources + which;
}

Flow CostModel::flow(const Segment& segment, const Op& op) const {
  Flow flow;
  flow.priority = feeding;
  flow.delay = static_cast<double>(machine_.device.op_overhead.value) * 1e-9;
  const bool on_cpu = machine_.device.kind == DeviceKind::cpu;
  const std::span<const Operand> operands = segment.operands_of(op);
  const double first = operands.empty() ? 0 : static_cast<double>(operands[0].frame.bytes.value);
  switch (op.kind) {
    case OpKind::copy:
      need_copy(flow, op, first);
      break;
    case OpKind::read:
      need_disk(flow, op, operands[1], first);
      break;
    case OpKind::write:
      need_disk(flow, op, operands[0], first);
      break;
    case OpKind::commit:
      flow.delay += commit_seconds;
      break;
    case OpKind::update:
    case OpKind::direction:
      need_update(flow, op, touched_bytes(segment, op) + bytes_read_again(operands[0]));
      break;
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      need_collective(flow, segment, op);
      break;
    case OpKind::lookup:
      need_lookup(flow, first);
      break;
    case OpKind::load_batch:
    case OpKind::pack:
      flow.need(dram, first);
      break;
    case OpKind::combine:
      need_combine(flow, touched_bytes(segment, op));
      break;
    case OpKind::send:
    case OpKind::receive:
      flow.delay += static_cast<double>(machine_.network.latency.value) * 1e-9;
      flow.need(op.kind == OpKind::send ? send_resource : receive_resource, first);
      flow.need(dram, first);
      break;
    case OpKind::forward:
    case OpKind::recall:
    case OpKind::backward:
    case OpKind::gradient:
    case OpKind::orthogonalize:
    case OpKind::norm: {
      const double seconds = is_of_piece(op.kind) ? block_seconds(segment, op)
                             : op.kind == OpKind::orthogonalize
                                 ? orthogonalize_[op.window][op.cut]
                                 : touched_bytes(segment, op) / machine_.device.memory_bytes_per_s;
      flow.need(on_cpu ? cores : device_resource(op.lane.device, compute), seconds);
      if (on_cpu) {
        flow.priority = computing;
        flow.need(dram, streamed_bytes(segment, op));
      }
      break;
    }
  }
  return flow;
}

double CostModel::touched_bytes(const Segment& segment, const Op& op) const {
  double bytes = 0;
  for (const Operand& o : segment.operands_of(op))
    bytes += static_cast<double>(o.frame.bytes.value) * (o.access == Access::read_write ? 2 : 1);
  return bytes;
}

double CostModel::streamed_bytes(const Segment& segment, const Op& op) const {
  double bytes = 0;
  for (const Operand& o : segment.operands_of(op))
    if (plan_.chunk(o.first).kind != Kind::workspace) bytes += static_cast<double>(o.frame.bytes.value);
  return bytes;
}

double CostModel::block_seconds(const Segment& segment, const Op& op) const {
  if (op.block >= blocks_.size()) return 0;
  const BlockSeconds& block = blocks_[op.block];
  const double share = graph_.blocks[op.block].share_of(op.piece);
  if (op.kind == OpKind::forward) return share * block.forward;
  bool kept = false;
  for (const Operand& o : segment.operands_of(op)) kept |= plan_.chunk(o.first).kind == Kind::kept;
  if (op.kind == OpKind::recall) {  // keys and values are copied from an inside that is kept
    const double copied = 2 * static_cast<double>(graph_.blocks[op.block].past.value);
    return (kept ? copied / machine_.device.memory_bytes_per_s : block.recall) / plan_.pieces;
  }
  return share * (kept ? block.backward : block.backward_recompute);
}

void CostModel::need_copy(Flow& flow, const Op& op, double bytes) const {
  const bool up = op.lane.kind == LaneKind::h2d;
  const CopyRates& rates = machine_.copies;
  if (machine_.device.kind == DeviceKind::cpu) {
    flow.need(cores, bytes / (up ? rates.h2d_bytes_per_s : rates.d2h_bytes_per_s));
    flow.need(dram, 2 * bytes);
    return;
  }
  need_link(flow, op.lane, bytes);
}

void CostModel::need_link(Flow& flow, LaneId lane, double bytes) const {
  const bool up = lane.kind == LaneKind::h2d;
  flow.need(device_resource(lane.device, up ? h2d : d2h), bytes);
  flow.need(device_resource(lane.device, both), bytes);
  flow.need(dram, bytes);
  const u32 shared = switch_of_[lane.device];
  if (shared != none) flow.need(shared + (up ? 0 : 1), bytes);
}

// Devices all work at once, and each sends as many bytes as it receives. On the cpu executor copies and sums
// share cores.
void CostModel::need_collective(Flow& flow, const Segment& segment, const Op& op) const {
  const Bytes all = collective_bytes(plan_, segment.operands_of(op), op.kind);
  if (machine_.device.kind == DeviceKind::cpu) {
    flow.need(cores, static_cast<double>(all.value) / machine_.copies.h2d_bytes_per_s);
    flow.need(dram, 2 * static_cast<double>(all.value));
    return;
  }
  const double of_each = static_cast<double>(all.value) / plan_.devices;
  if (machine_.copies.interconnect_bytes_per_s > 0) {
    flow.need(device_resource(0, interconnect), of_each);
    return;
  }
  for (u16 device = 0; device < plan_.devices; ++device)
    for (const LaneKind kind : {LaneKind::d2h, LaneKind::h2d}) need_link(flow, {device, kind}, of_each);
}

// Updates compute checksums of the state that they change. Other content is hashed before it is written, and
// all reads are checked.
void CostModel::need_disk(Flow& flow, const Op& op, const Operand& in_memory, double bytes) const {
  const bool read = op.kind == OpKind::read;
  flow.need(disk_resource, bytes / disk_rate(read, bytes));
  flow.need(dram, bytes);
  if (read || !is_persistent(plan_.chunk(in_memory.first)))
    flow.need(cores, bytes / machine_.host.checksum_bytes_per_s);
}

// Each row that rests on disk is read with the blocks that hold it.
void CostModel::need_lookup(Flow& flow, double bytes) const {
  flow.need(dram, 2 * bytes);
  if (const u64 most = lookup_disk_bytes(plan_).value; most > 0)
    flow.need(disk_resource,
              static_cast<double>(most) / disk_rate(true, static_cast<double>(frame_alignment)));
}

double CostModel::bytes_read_again(const Operand& gradient) const {
  const u32 reads = gradient_reads_[plan_.chunk(gradient.first).rule];
  return static_cast<double>(gradient.frame.bytes.value) * (reads - 1);
}

void CostModel::need_update(Flow& flow, const Op& op, double bytes) const {
  const bool on_device = op.lane.kind == LaneKind::compute;
  if (on_device && machine_.device.kind == DeviceKind::cuda) {
    flow.need(device_resource(op.lane.device, compute), bytes / machine_.device.memory_bytes_per_s);
    return;
  }
  flow.need(cores, bytes / machine_.host.update_bytes_per_s);
  flow.need(dram, bytes);
}

// A sum streams through memory as an update does, and computes less.
void CostModel::need_combine(Flow& flow, double bytes) const {
  flow.need(cores, bytes / machine_.host.update_bytes_per_s);
  flow.need(dram, bytes);
}

// Interpolates between the measured block sizes by the logarithm of the size, at the deepest queue measured.
double CostModel::disk_rate(bool read, double bytes) const {
  const double large = read ? machine_.disk.read_bytes_per_s : machine_.disk.write_bytes_per_s;
  const DiskPoint *below = nullptr, *above = nullptr;
  for (const DiskPoint& p : machine_.disk.points) {
    const bool fits = static_cast<double>(p.block.value) <= bytes;
    const DiskPoint*& best = fits ? below : above;
    const auto better = [&] {
      if (p.block != best->block) return fits ? p.block > best->block : p.block < best->block;
      return p.depth > best->depth;
    };
    if (best == nullptr || better()) best = &p;
  }
  if (above == nullptr) return large;
  const auto rate = [&](const DiskPoint& p) { return read ? p.read_bytes_per_s : p.write_bytes_per_s; };
  if (below == nullptr) return std::min(large, rate(*above));
  const double from = std::log(static_cast<double>(below->block.value)),
               to = std::log(static_cast<double>(above->block.value));
  const double part = (std::log(bytes) - from) / (to - from);
  return std::min(large, rate(*below) + part * (rate(*above) - rate(*below)));
}

}  // namespace tidepool
