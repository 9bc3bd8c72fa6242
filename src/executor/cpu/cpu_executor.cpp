#include "executor/cpu/cpu_executor.h"

#include <algorithm>
#include <cstring>

namespace tidepool {
namespace {

// Names the first device's thread "tp-compute", further devices' "tp-compute1" and so on: 15 characters at
// most.
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
  TRY(executor->start_lanes());
  TRY_ASSIGN(executor->disk_lanes_, DiskLanes::create({.plan = plan,
                                                       .graph = graph,
                                                       .pool = parts.pool,
                                                       .memory = executor->memory_,
                                                       .ledger = executor->ledger_,
                                                       .clock = executor->clock_,
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
      book_(plan, lane_depth, parts.disk_depth),
      board_(sequences_max(plan), book_.ops_max()),
      runner_({.plan = plan,
               .graph = graph,
               .pool = parts.pool,
               .kernels = parts_.kernels,
               .source = parts.source,
               .memory = memory_,
               .ledger = ledger_,
               .seed = parts.seed}),
      threads_(book_.lanes()) {}

Result<void> CpuExecutor::start_lanes() {
  const auto start = [&](LaneId lane) -> Result<void> {
    const u32 device = lane.device == host_device ? 0 : lane.device;
    TRY_ASSIGN(threads_[book_.number(lane)],
               LaneThread::create(thread_name(lane.kind, device), runner_, clock_, board_));
    return {};
  };
  TRY(start({.kind = LaneKind::host}));
  if (plan_.devices > 1) TRY(start({.kind = LaneKind::comm}));
  for (u16 device = 0; device < plan_.devices; ++device)
    for (const LaneKind kind : {LaneKind::compute, LaneKind::h2d, LaneKind::d2h}) TRY(start({device, kind}));
  return {};
}

CpuExecutor::~CpuExecutor() = default;

void CpuExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneId lane = issue.get().lane;
  book_.submitted(issue);
  if (is_ordered(lane.kind)) return threads_[book_.number(lane)]->push(issue, in_flight);
  CHECK(in_flight.empty(), name(lane.kind), issue.sequence);
  disk_lanes_->submit(issue);
}

std::span<const Completion> CpuExecutor::wait() {
  const std::span<const Completion> completions = board_.take(parts_.patience);
  book_.completed(completions);
  return completions;
}

std::array<Bytes, link_count> CpuExecutor::moved() const {
  return {runner_.copied(LinkKind::h2d), runner_.copied(LinkKind::d2h),
          disk_lanes_->moved(LinkKind::disk_read), disk_lanes_->moved(LinkKind::disk_write)};
}

Result<void> CpuExecutor::run_at_rest(const Segment& segment, OpId id) {
  const Issue issue{.segment = &segment, .op = id, .step = 1};
  const OpKind kind = issue.get().kind;
  CHECK(kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::gradient, name(kind));
  return runner_.run(issue);
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

Result<void> CpuExecutor::begin_write_home(ChunkId id, std::span<const std::byte> content) {
  const Frame& home = plan_.homes[index(id)];
  CHECK(content.size() == home.bytes.value, content.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->begin_write(id, home, content);
  std::memcpy(memory_.at(home).data(), content.data(), content.size());
  return {};
}

Result<void> CpuExecutor::end_write_home(ChunkId id) {
  if (plan_.homes[index(id)].tier == Tier::disk) return disk_lanes_->end_write(id);
  return {};
}

Result<void> CpuExecutor::clear_home(ChunkId id) {
  const Frame& home = plan_.homes[index(id)];
  if (home.tier == Tier::disk) return disk_lanes_->clear(id, home);
  std::ranges::fill(memory_.at(home), std::byte{0});
  return {};
}

}  // namespace tidepool
