#include "executor/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "executor/cuda/product_tuning.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool {
namespace {

std::vector<std::span<std::byte>> frames_of(const std::vector<CudaExecutorParts::Device>& devices) {
  std::vector<std::span<std::byte>> frames;
  for (const CudaExecutorParts::Device& d : devices) frames.push_back(d.device->frames());
  return frames;
}

// Names the first device's thread "tp-compute", further devices' "tp-compute1" and so on: 15 characters at
// most.
std::string thread_name(LaneId lane) {
  const std::string plain = "tp-" + std::string(name(lane.kind));
  return lane.device == 0 || lane.device == host_device ? plain : plain + std::to_string(lane.device);
}

}  // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(const Plan& plan, const ModelGraph& graph,
                                                           const CudaExecutorParts& parts) {
  CHECK(plan.devices == parts.devices.size() && (plan.devices == 1 || parts.collectives != nullptr),
        plan.devices, parts.devices.size());
  CHECK(parts.host_arena.size() >= plan.tiers[static_cast<u32>(Tier::host)].planned_peak.value,
        parts.host_arena.size());
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(plan, graph, parts));
  TRY(executor->start());
  return executor;
}

CudaExecutor::CudaExecutor(const Plan& plan, const ModelGraph& graph, const CudaExecutorParts& parts)
    : plan_(plan),
      graph_(graph),
      parts_(parts),
      memory_(frames_of(parts.devices), parts.host_arena),
      ledger_(plan),
      book_(plan, lane_depth, parts.disk_depth),
      board_(sequences_max(plan), book_.ops_max()),
      ends_(std::bit_ceil(2 * sequences_max(plan))),
      streams_(book_.lanes()) {}

Result<void> CudaExecutor::start_numbers() {
  for (const CudaExecutorParts::Device& d : parts_.devices) {
    TRY_CUDA(cudaSetDevice(d.device->index()), "using cuda:" + std::to_string(d.device->index()));
    TRY_ASSIGN(numbers_.emplace_back(),
               DeviceNumbers::create(
                   plan_, graph_, parts_.source,
                   {.device = d.device->index(), .memory = d.numbers, .compute = d.device->compute()}));
  }
  return {};
}

Result<void> CudaExecutor::start() {
  TRY(tune_products());
  TRY(start_numbers());
  CudaWorkParts work{.plan = plan_,
                     .graph = graph_,
                     .devices = {},
                     .collectives = parts_.collectives,
                     .source = parts_.source,
                     .memory = memory_,
                     .evaluation = evaluation_,
                     .seed = parts_.seed};
  for (u32 d = 0; d < plan_.devices; ++d)
    work.devices.push_back({.kernels = parts_.devices[d].kernels, .numbers = numbers_[d].get()});
  work_ = std::make_unique<CudaWork>(work);
  graphs_ = std::make_unique<OpGraphs>(
      OpGraphsParts{.work = *work_, .plan = plan_, .graph = graph_, .allowance = parts_.graphs});
  host_work_ = std::make_unique<HostWork>(HostWorkParts{
      .update = {.plan = plan_, .graph = graph_, .pool = parts_.pool, .memory = memory_, .ledger = ledger_},
      .source = parts_.source,
      .evaluation = evaluation_,
      .result = [this](u64 step) { return result(step); }});
  TRY_ASSIGN(disk_lanes_, DiskLanes::create({.plan = plan_,
                                             .graph = graph_,
                                             .pool = parts_.pool,
                                             .memory = memory_,
                                             .ledger = ledger_,
                                             .clock = clock_,
                                             .board = board_,
                                             .staging = parts_.staging,
                                             .depth = parts_.disk_depth,
                                             .rest_patience = parts_.rest_patience},
                                            parts_.open_disk));
  TRY(start_lanes());
  TRY_ASSIGN(host_, LaneThread::create("tp-host", *host_work_, clock_, board_));
  return {};
}

Result<void> CudaExecutor::tune_products() {
  for (u32 d = 0; d < plan_.devices; ++d) {
    if (parts_.devices[d].tuning == nullptr) continue;
    TRY_CUDA(cudaSetDevice(device(d).index()), "using " + device(d).name());
    TRY(tidepool::tune_products({.plan = plan_,
                                 .graph = graph_,
                                 .memory = memory_,
                                 .device = device(d),
                                 .number = d,
                                 .kernels = *parts_.devices[d].tuning,
                                 .staging = parts_.staging}));
  }
  if (parts_.products_tuned) parts_.products_tuned();
  return {};
}

Result<void> CudaExecutor::start_lanes() {
  for (u32 d = 0; d < plan_.devices; ++d) {
    const auto start = [&](LaneKind kind, cudaStream_t stream) {
      return start_lane({static_cast<u16>(d), kind}, {{device(d).index(), stream}});
    };
    TRY(start(LaneKind::compute, device(d).compute()));
    TRY(start(LaneKind::h2d, device(d).h2d()));
    TRY(start(LaneKind::d2h, device(d).d2h()));
  }
  if (plan_.devices == 1) return {};
  TRY_ASSIGN(watch_, CollectiveWatch::create(*parts_.collectives, board_));
  std::vector<StreamLaneParts::Stream> all;
  for (u32 d = 0; d < plan_.devices; ++d) all.push_back({device(d).index(), parts_.collectives->stream(d)});
  return start_lane({.kind = LaneKind::comm}, std::move(all));
}

Result<void> CudaExecutor::start_lane(LaneId lane, std::vector<StreamLaneParts::Stream> streams) {
  TRY_ASSIGN(streams_[book_.number(lane)],
             StreamLane::create({.name = thread_name(lane),
                                 .streams = std::move(streams),
                                 .work = *graphs_,
                                 .clock = clock_,
                                 .board = board_,
                                 .suspects = [this](const Issue& asked) { return suspects(asked); }}));
  return {};
}

// RETURNS: lanes whose ops may have caused the error that lane `told` received: lanes of its device, and
// collectives of all devices. Compute comes first, because copies seldom fail.
std::vector<LaneId> CudaExecutor::suspected_lanes(LaneId told) const {
  std::vector<LaneId> lanes;
  if (told.kind != LaneKind::comm) {
    for (const LaneKind kind : {LaneKind::compute, LaneKind::h2d, LaneKind::d2h})
      lanes.push_back({told.device, kind});
  } else {
    for (u32 d = 0; d < plan_.devices; ++d) lanes.push_back({static_cast<u16>(d), LaneKind::compute});
  }
  if (plan_.devices > 1) lanes.push_back({.kind = LaneKind::comm});
  return lanes;
}

// Lists suspected ops: a failing device reports to the next call of any lane, and does not say which op
// failed.
std::string CudaExecutor::suspects(const Issue& told) const {
  std::vector<std::string> all;
  bool has_told = false;
  for (const LaneId lane : suspected_lanes(told.get().lane)) {
    for (const Issue& issue : streams_[book_.number(lane)]->in_flight()) {
      all.push_back(work_->describe(issue));
      has_told = has_told || issue.sequence == told.sequence;
    }
    if (lane == told.get().lane && !has_told) all.push_back(work_->describe(told));
  }
  std::string text = all.front();
  for (u64 i = 1; i < all.size(); ++i) text += (i == 1 ? " (or, as it is told late: " : "; ") + all[i];
  return all.size() > 1 ? text + ")" : text;
}

// After a failure an exchange may have begun that no thread waits for.
CudaExecutor::~CudaExecutor() {
  if (parts_.collectives != nullptr && board_.failed()) parts_.collectives->abort();
  for (const auto& lane : streams_)  // stops all before destroying any: each may name ops of the others
    if (lane != nullptr) lane->stop();
}

void CudaExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneKind lane = issue.get().lane.kind;
  book_.submitted(issue);
  if (const auto& stream = streams_[book_.number(issue.get().lane)]) {
    std::array<cudaEvent_t, in_flight_max> after{};
    CHECK(in_flight.size() <= after.size(), in_flight.size());
    for (u32 i = 0; i < in_flight.size(); ++i) after[i] = ends_[in_flight[i] & (ends_.size() - 1)];
    ends_[issue.sequence & (ends_.size() - 1)] =
        stream->submit(issue, std::span(after).first(in_flight.size()));
    return;
  }
  if (lane == LaneKind::host) return host_->push(issue, in_flight);
  CHECK(in_flight.empty(), name(lane), issue.sequence);
  disk_lanes_->submit(issue);
}

std::span<const Completion> CudaExecutor::wait() {
  const std::span<const Completion> completions = board_.take(parts_.patience);
  book_.completed(completions);
  return completions;
}

std::array<Bytes, link_count> CudaExecutor::moved() const {
  return {work_->copied(LinkKind::h2d), work_->copied(LinkKind::d2h), disk_lanes_->moved(LinkKind::disk_read),
          disk_lanes_->moved(LinkKind::disk_write)};
}

// ---- at rest

void CudaExecutor::set_loss_scale(const LossScale& scale) {
  for (u32 d = 0; d < numbers_.size(); ++d) {
    cudaSetDevice(parts_.devices[d].device->index());
    numbers_[d]->set_loss_scale(scale);
  }
}

Result<void> CudaExecutor::run_at_rest(const Segment& segment, OpId id) {
  const Issue issue{.segment = &segment, .op = id, .step = 1};
  const OpKind kind = issue.get().kind;
  CHECK(kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::gradient, name(kind));
  const auto doing = [&] { return work_->describe(issue); };
  const CudaDevice& on = device(issue.get().lane.device);
  TRY_CUDA(cudaSetDevice(on.index()), doing());
  TRY(enqueue_named(*work_, issue, 0, on.compute()));
  TRY_CUDA(cudaStreamSynchronize(on.compute()), doing());
  return {};
}

std::span<std::byte> CudaExecutor::home_memory(ChunkId id) const {
  const Frame& home = plan_.homes[index(id)];
  return home.tier == Tier::host ? memory_.at(home) : std::span<std::byte>();
}

Result<void> CudaExecutor::copy_at_rest(ChunkId id, LaneKind lane, void* to, const void* from, u64 bytes) {
  const bool down = lane == LaneKind::d2h;
  const auto doing = [&] {
    const Chunk& chunk = plan_.chunk(id);
    return fmt::format("at rest, {} {} of {} cut {} on device {} {} ({:.2f} MiB)",
                       down ? "reading" : "writing", name(chunk.kind), graph_.windows[chunk.window].name,
                       chunk.cut, plan_.homes[index(id)].device, name(lane),
                       static_cast<double>(bytes) / static_cast<double>(mib));
  };
  const CudaDevice& on = device(plan_.homes[index(id)].device);
  const cudaStream_t stream = down ? on.d2h() : on.h2d();
  TRY_CUDA(cudaSetDevice(on.index()), doing());
  TRY_CUDA(cudaMemcpyAsync(to, from, bytes, down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream),
           doing());
  TRY_CUDA(cudaStreamSynchronize(stream), doing());
  return {};
}

Result<void> CudaExecutor::read_home(ChunkId id, std::span<std::byte> out) {
  const Frame& home = plan_.homes[index(id)];
  CHECK(out.size() == home.bytes.value, out.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->read(id, home, out);
  const std::span<std::byte> from = memory_.at(home);
  if (home.tier == Tier::host) {
    std::memcpy(out.data(), from.data(), out.size());
    return {};
  }
  for (u64 at = 0; at < out.size(); at += parts_.staging.size()) {
    const u64 bytes = std::min(parts_.staging.size(), out.size() - at);
    TRY(copy_at_rest(id, LaneKind::d2h, parts_.staging.data(), from.data() + at, bytes));
    std::memcpy(out.data() + at, parts_.staging.data(), bytes);
  }
  return {};
}

Result<void> CudaExecutor::begin_write_home(ChunkId id, std::span<const std::byte> content) {
  const Frame& home = plan_.homes[index(id)];
  CHECK(content.size() == home.bytes.value, content.size(), home.bytes.value);
  if (home.tier == Tier::disk) return disk_lanes_->begin_write(id, home, content);
  const std::span<std::byte> to = memory_.at(home);
  if (home.tier == Tier::host) {
    std::memcpy(to.data(), content.data(), content.size());
    return {};
  }
  for (u64 at = 0; at < content.size(); at += parts_.staging.size()) {
    const u64 bytes = std::min(parts_.staging.size(), content.size() - at);
    std::memcpy(parts_.staging.data(), content.data() + at, bytes);
    TRY(copy_at_rest(id, LaneKind::h2d, to.data() + at, parts_.staging.data(), bytes));
  }
  return {};
}

Result<void> CudaExecutor::end_write_home(ChunkId id) {
  if (plan_.homes[index(id)].tier == Tier::disk) return disk_lanes_->end_write(id);
  return {};
}

Result<void> CudaExecutor::clear_home(ChunkId id) {
  const Frame& home = plan_.homes[index(id)];
  if (home.tier == Tier::disk) return disk_lanes_->clear(id, home);
  const std::span<std::byte> to = memory_.at(home);
  if (home.tier == Tier::host) {
    std::ranges::fill(to, std::byte{0});
    return {};
  }
  std::ranges::fill(parts_.staging, std::byte{0});
  for (u64 at = 0; at < to.size(); at += parts_.staging.size())
    TRY(copy_at_rest(id, LaneKind::h2d, to.data() + at, parts_.staging.data(),
                     std::min(parts_.staging.size(), to.size() - at)));
  return {};
}

}  // namespace tidepool
