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

}  // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const Plan& plan, const ModelGraph& graph,
                                                         const CpuExecutorParts& parts) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    const u64 arena = tier == Tier::device ? parts.device_arena.size() : parts.host_arena.size();
    CHECK(arena >= plan.tiers[static_cast<u32>(tier)].planned_peak.value, name(tier), arena);
  }
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
      memory_(parts.device_arena, parts.host_arena),
      ledger_(plan),
      runner_({.plan = plan,
               .graph = graph,
               .pool = parts.pool,
               .kernels = parts.kernels,
               .source = parts.source,
               .memory = memory_,
               .ledger = ledger_,
               .seed = parts.seed}),
      board_(sequences_max(plan), 4 * lane_depth + 2 * parts.disk_depth),
      lane_by_sequence_(std::bit_ceil(2 * sequences_max(plan))),
      compute_(std::make_unique<LaneThread>("tp-compute", runner_, board_)),
      h2d_(std::make_unique<LaneThread>("tp-h2d", runner_, board_)),
      d2h_(std::make_unique<LaneThread>("tp-d2h", runner_, board_)),
      host_(std::make_unique<LaneThread>("tp-host", runner_, board_)) {}

CpuExecutor::~CpuExecutor() = default;

LaneThread& CpuExecutor::thread_of(LaneKind lane) {
  switch (lane) {
    case LaneKind::compute: return *compute_;
    case LaneKind::h2d: return *h2d_;
    case LaneKind::d2h: return *d2h_;
    default: break;
  }
  CHECK(lane == LaneKind::host, name(lane));
  return *host_;
}

u32 CpuExecutor::slots_free(LaneId lane) const {
  const u32 depth = is_ordered(lane.kind) ? lane_depth : parts_.disk_depth;
  return depth - held_[static_cast<u32>(lane.kind)];
}

void CpuExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneKind lane = issue.get().lane.kind;
  CHECK(slots_free(issue.get().lane) > 0, name(lane), issue.sequence);
  for (const Operand& o : issue.segment->operands_of(issue.get())) high_water_.touch(o.frame);
  ++held_[static_cast<u32>(lane)];
  lane_by_sequence_[issue.sequence & (lane_by_sequence_.size() - 1)] = lane;
  if (is_ordered(lane)) return thread_of(lane).push(issue, in_flight);
  CHECK(in_flight.empty(), name(lane), issue.sequence);
  disk_lanes_->submit(issue);
}

std::span<const Completion> CpuExecutor::wait() {
  const std::span<const Completion> completions = board_.take(parts_.patience);
  for (const Completion& c : completions) {
    --held_[static_cast<u32>(lane_by_sequence_[c.sequence & (lane_by_sequence_.size() - 1)])];
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
  const Issue issue{.segment = &segment, .op = id};
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
