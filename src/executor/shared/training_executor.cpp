#include "executor/shared/training_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "executor/shared/update_op.h"
#include "net/transport.h"

namespace tidepool {

Result<std::unique_ptr<TrainingExecutor>> TrainingExecutor::create(std::unique_ptr<ExecutorCommon> common,
                                                                   std::unique_ptr<DeviceLanes> lanes) {
  std::unique_ptr<TrainingExecutor> executor(new TrainingExecutor(std::move(common), std::move(lanes)));
  TRY(executor->start());
  return executor;
}

TrainingExecutor::TrainingExecutor(std::unique_ptr<ExecutorCommon> common, std::unique_ptr<DeviceLanes> lanes)
    : common_(std::move(common)), lanes_(std::move(lanes)), host_work_(*common_, *lanes_) {}

Result<void> TrainingExecutor::start() {
  TRY_ASSIGN(disk_lanes_, DiskLanes::create(*common_));
  if (common_->plan.nodes > 1) {
    CHECK(common_->request.transport != nullptr, common_->plan.nodes);
    net_lanes_ = std::make_unique<NetLanes>(*common_);
  }
  if (common_->plan.lookup.on()) {
    lookup_ = std::make_unique<RowLookup>(*common_, *disk_lanes_);
    host_work_.set_lookup(*lookup_);
  }
  TRY_ASSIGN(host_, LaneThread::create(lane_thread_name({.kind = LaneKind::host}), host_work_, common_->clock,
                                       common_->board));
  return {};
}

// Devices' lanes stop first: the host lane may wait for their ops, and asks them for a step's result.
TrainingExecutor::~TrainingExecutor() { lanes_->stop(); }

void TrainingExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneId lane = issue.get().lane;
  common_->book.submitted(issue);
  if (lane.kind == LaneKind::host) return host_->push(issue, in_flight);
  if (is_ordered(lane.kind)) return lanes_->submit(issue, in_flight);
  CHECK(in_flight.empty(), name(lane.kind), issue.sequence);
  if (is_net(lane.kind)) return net_lanes_->submit(issue);
  disk_lanes_->submit(issue);
}

std::span<const Completion> TrainingExecutor::wait() {
  const std::span<const Completion> completions = common_->board.take(common_->request.patience);
  common_->book.completed(completions);
  end_nodes(completions);
  return completions;
}

// The other nodes must learn of an error at once: the engine still waits for receives in flight, and what
// they receive may depend on ops that this node will not run.
void TrainingExecutor::end_nodes(std::span<const Completion> completions) {
  if (common_->request.transport == nullptr) return;
  for (const Completion& completion : completions)
    if (completion.error != nullptr) return common_->request.transport->fail(*completion.error);
}

// ---- at rest

Result<void> TrainingExecutor::run_at_rest(const Segment& segment, OpId id, u32 times) {
  const Issue issue{.segment = &segment, .op = id, .step = 1};
  const OpKind kind = issue.get().kind;
  CHECK(kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::recall ||
            kind == OpKind::gradient || kind == OpKind::orthogonalize,
        name(kind));
  return lanes_->run_at_rest(issue, times);
}

std::span<std::byte> TrainingExecutor::home_memory(ChunkId id) const {
  const Frame& home = home_of(id);
  const bool reached =
      home.tier == Tier::host || (home.tier == Tier::device && lanes_->host_reaches_frames());
  return reached ? common_->memory.at(home) : std::span<std::byte>();
}

Result<void> TrainingExecutor::read_home(ChunkId id, std::span<std::byte> out) {
  const Frame& home = home_of(id);
  CHECK(out.size() == home.bytes.value, out.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->read(id, home, out);
  if (const std::span<std::byte> memory = home_memory(id); !memory.empty()) {
    std::memcpy(out.data(), memory.data(), out.size());
    return {};
  }
  const std::span<std::byte> from = common_->memory.at(home), staging = common_->request.staging;
  for (u64 at = 0; at < out.size(); at += staging.size()) {
    const std::span<std::byte> piece = staging.first(std::min(staging.size(), out.size() - at));
    TRY(lanes_->copy_at_rest(id, LaneKind::d2h, piece, from.subspan(at, piece.size())));
    std::memcpy(out.data() + at, piece.data(), piece.size());
  }
  return {};
}

Result<void> TrainingExecutor::begin_write_home(ChunkId id, std::span<const std::byte> content) {
  const Frame& home = home_of(id);
  CHECK(content.size() == home.bytes.value, content.size(), home.bytes.value);
  if (home.tier == Tier::disk) {
    if (common_->plan.chunk(id).window == common_->plan.lookup.window) lookup_->keep_checksums(id, content);
    return disk_lanes_->begin_write(id, home, content);
  }
  if (const std::span<std::byte> memory = home_memory(id); !memory.empty()) {
    std::memcpy(memory.data(), content.data(), content.size());
    return {};
  }
  const std::span<std::byte> to = common_->memory.at(home), staging = common_->request.staging;
  for (u64 at = 0; at < content.size(); at += staging.size()) {
    const std::span<std::byte> piece = staging.first(std::min(staging.size(), content.size() - at));
    std::memcpy(piece.data(), content.data() + at, piece.size());
    TRY(lanes_->copy_at_rest(id, LaneKind::h2d, to.subspan(at, piece.size()), piece));
  }
  return {};
}

Result<void> TrainingExecutor::end_write_home(ChunkId id) {
  if (home_of(id).tier == Tier::disk) return disk_lanes_->end_write(id);
  return {};
}

Result<void> TrainingExecutor::take_over() {
  const CommitLane& commits = *disk_lanes_->commits();
  std::vector<std::byte> buffer;
  for (const ChunkId id : commits.chunks()) {
    if (home_of(id).tier == Tier::disk) continue;
    const Frame& slot = common_->plan.slots[index(id)];
    if (const std::span<std::byte> memory = home_memory(id); !memory.empty()) {
      TRY(disk_lanes_->read(id, slot, memory));
      continue;
    }
    buffer.resize(slot.bytes.value);
    TRY(disk_lanes_->read(id, slot, buffer));
    TRY(write_home(id, buffer));
  }
  return {};
}

Result<void> TrainingExecutor::roll_back(u64 step) {
  common_->replayed.forget_until(step);
  for (const ChunkId id : disk_lanes_->commits()->chunks()) common_->ledger.roll_back(id);
  return take_over();
}

bool TrainingExecutor::assumed_right(u64 step) const {
  const StepResult has = result(step);
  const StepResult* const known = common_->replayed.find(step);
  const StepResult assumed = known != nullptr ? *known : StepResult{.loss_scale = has.loss_scale};
  return std::ranges::all_of(common_->graph.rules, [&](const UpdateRule& rule) {
    const auto scalars = [&](const StepResult& of) {
      return scalars_of_step(common_->plan, rule, common_->request.source, step, of);
    };
    return scalars(has) == scalars(assumed);
  });
}

Result<bool> TrainingExecutor::commit_at_rest(u64 step) {
  CommitLane& commits = *disk_lanes_->commits();
  std::vector<std::byte> buffer;
  for (const ChunkId id : commits.chunks()) {
    if (home_of(id).tier == Tier::disk) continue;
    std::span<const std::byte> content = home_memory(id);
    if (content.empty()) {
      buffer.resize(home_of(id).bytes.value);
      TRY(read_home(id, buffer));
      content = buffer;
    }
    TRY(disk_lanes_->begin_write(id, common_->plan.slots[index(id)], content));
    TRY(disk_lanes_->end_write(id));
  }
  return commits.commit_at_rest(step);
}

Result<void> TrainingExecutor::clear_home(ChunkId id) {
  const Frame& home = home_of(id);
  if (home.tier == Tier::disk) return disk_lanes_->clear(id, home);
  if (const std::span<std::byte> memory = home_memory(id); !memory.empty()) {
    parallel_for(common_->pool, Priority::normal, static_cast<u32>(div_up(memory.size(), copy_piece_bytes)),
                 [&](u32 piece, u32) {
                   const u64 begin = piece * copy_piece_bytes;
                   std::memset(memory.data() + begin, 0, std::min(copy_piece_bytes, memory.size() - begin));
                 });
    return {};
  }
  const std::span<std::byte> to = common_->memory.at(home), staging = common_->request.staging;
  std::ranges::fill(staging, std::byte{0});
  for (u64 at = 0; at < to.size(); at += staging.size()) {
    const u64 bytes = std::min(staging.size(), to.size() - at);
    TRY(lanes_->copy_at_rest(id, LaneKind::h2d, to.subspan(at, bytes), staging.first(bytes)));
  }
  return {};
}

}  // namespace tidepool
