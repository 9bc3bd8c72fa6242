#include "executor/cpu/cpu_executor.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tidepool {
namespace {

u64 ops_max(const Plan& plan) {
  u64 ops = 1;
  for (const Segment& segment : plan.segments) ops = std::max<u64>(ops, segment.ops.size());
  return ops;
}

// Two runs of segments are alive at most.
u64 sequences_max(const Plan& plan) { return 2 * ops_max(plan); }

// Lanes by number: those of no device first, then three of each device.
constexpr u32 lanes_of_all = 4, lanes_of_device = 3;

u32 ordered_lanes(const Plan& plan) { return 2 + plan.devices * lanes_of_device; }

// "tp-compute", of further devices "tp-compute1": 15 characters at most.
std::string thread_name(LaneKind lane, u32 device) {
  const std::string plain = "tp-" + std::string(name(lane));
  return device == 0 ? plain : plain + std::to_string(device);
}

}  // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const Plan& plan, const ModelGraph& graph,
                                                         const CpuExecutorParts& parts) {
  CHECK(parts.device_arenas.size() == plan.devices && parts.kernels.size() == plan.devices,
        parts.device_arenas.size(), parts.kernels.size(), plan.devices);
  for (const std::span<std::byte> arena : parts.device_arenas)
    CHECK(arena.size() >= plan.tiers[0].planned_peak.value, arena.size());
  CHECK(parts.host_arena.size() >= plan.tiers[1].planned_peak.value, parts.host_arena.size());
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(plan, graph, parts));
  TRY_ASSIGN(executor->disk_lanes_, DiskLanes::create({.plan = plan,
                                                       .graph = graph,
                                                       .pool = parts.pool,
                                                       .memory = executor->memory_,
                                                       .ledger = executor->ledger_,
                                                       .clock = executor->runner_,
                                                       .board = executor->board_,
                                                       .staging = parts.staging,
                                                       .depth = parts.disk_depth,
                                                       .rest_patience = parts.rest_patience},
                                                      parts.open_disk));
  return executor;
}

CpuExecutor::CpuExecutor(const Plan& plan, const ModelGraph& graph, const CpuExecutorParts& parts)
    : plan_(plan),
      parts_(parts),
      memory_(parts.device_arenas, parts.host_arena),
      ledger_(plan),
      runner_({.plan = plan,
               .graph = graph,
               .pool = parts.pool,
               .kernels = parts_.kernels,
               .source = parts.source,
               .memory = memory_,
               .ledger = ledger_,
               .seed = parts.seed}),
      board_(sequences_max(plan), ordered_lanes(plan) * lane_depth + 2 * parts.disk_depth),
      held_(lanes_of_all + plan.devices * lanes_of_device),
      lane_by_sequence_(std::bit_ceil(2 * sequences_max(plan))),
      threads_(held_.size()) {
  const auto start = [&](LaneId lane) {
    const u32 device = lane.device == host_device ? 0 : lane.device;
    threads_[lane_number(lane)] = std::make_unique<LaneThread>(thread_name(lane.kind, device), runner_, board_);
  };
  start({.kind = LaneKind::host});
  if (plan.devices > 1) start({.kind = LaneKind::comm});
  for (u16 device = 0; device < plan.devices; ++device)
    for (const LaneKind kind : {LaneKind::compute, LaneKind::h2d, LaneKind::d2h}) start({device, kind});
}

CpuExecutor::~CpuExecutor() = default;

u32 CpuExecutor::lane_number(LaneId lane) const {
  switch (lane.kind) {
    case LaneKind::host: return 0;
    case LaneKind::comm: return 1;
    case LaneKind::disk_read: return 2;
    case LaneKind::disk_write: return 3;
    default: break;
  }
  CHECK(lane.device < plan_.devices, name(lane.kind), lane.device);
  return lanes_of_all + lane.device * lanes_of_device + static_cast<u32>(lane.kind);
}

u32 CpuExecutor::slots_free(LaneId lane) const {
  const u32 depth = is_ordered(lane.kind) ? lane_depth : parts_.disk_depth;
  return depth - held_[lane_number(lane)];
}

void CpuExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneId lane = issue.get().lane;
  CHECK(slots_free(lane) > 0, name(lane.kind), issue.sequence);
  for (const Operand& o : issue.segment->operands_of(issue.get())) high_water_.touch(o.frame);
  ++held_[lane_number(lane)];
  lane_by_sequence_[issue.sequence & (lane_by_sequence_.size() - 1)] = lane_number(lane);
  if (is_ordered(lane.kind)) return threads_[lane_number(lane)]->push(issue, in_flight);
  CHECK(in_flight.empty(), name(lane.kind), issue.sequence);
  disk_lanes_->submit(issue);
}

std::span<const Completion> CpuExecutor::wait() {
  const std::span<const Completion> completions = board_.take(parts_.patience);
  for (const Completion& c : completions) {
    --held_[lane_by_sequence_[c.sequence & (lane_by_sequence_.size() - 1)]];
  }
  return completions;
}

bool CpuExecutor::busy() const {
  return std::any_of(held_.begin(), held_.end(), [](u32 n) { return n > 0; }) || disk_lanes_->busy_at_rest();
}

std::array<Bytes, link_count> CpuExecutor::moved() const {
  return {runner_.copied(LinkKind::h2d), runner_.copied(LinkKind::d2h), disk_lanes_->moved(LinkKind::disk_read),
          disk_lanes_->moved(LinkKind::disk_write)};
}

void CpuExecutor::run_at_rest(const Segment& segment, OpId id) {
  const Issue issue{.segment = &segment, .op = id, .step = 1};
  const OpKind kind = issue.get().kind;
  CHECK(kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::gradient, name(kind));
  CHECK(runner_.run(issue).has_value(), index(id));
}

std::span<std::byte> CpuExecutor::home_memory(ChunkId id) const {
  const Frame& home = plan_.homes[index(id)];
  if (home.tier == Tier::disk) return {};
  return memory_.at(home);
}

Result<void> CpuExecutor::read_home(ChunkId id, std::span<std::byte> out) {
  const Frame& home = plan_.homes[index(id)];
  CHECK(out.size() == home.bytes.value, out.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->read(id, home, out);
  std::memcpy(out.data(), memory_.at(home).data(), out.size());
  return {};
}

Result<void> CpuExecutor::write_home(ChunkId id, std::span<const std::byte> content) {
  const Frame& home = plan_.homes[index(id)];
  CHECK(content.size() == home.bytes.value, content.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->write(id, home, content);
  std::memcpy(memory_.at(home).data(), content.data(), content.size());
  return {};
}

}  // namespace tidepool
