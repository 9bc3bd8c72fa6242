// CudaLanes makes the lanes of a run on GPUs, and names the ops that a failure may come from.
#include "executor/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "executor/cuda/collective_watch.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/node_numbers.h"
#include "executor/cuda/op_graphs.h"
#include "executor/cuda/product_tuning.h"
#include "executor/cuda/routing_sum.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool {
namespace {

class CudaLanes final : public DeviceLanes {
 public:
  CudaLanes(ExecutorCommon& common, const CudaLanesParts& parts)
      : common_(common),
        parts_(parts),
        ends_(std::bit_ceil(2 * sequences_max(common.plan))),
        streams_(common.book.lanes()) {}
  ~CudaLanes() override { stop(); }
  Result<void> start();

  void submit(const Issue&, std::span<const u64> in_flight) override;
  void stop() override;

  StepResult result(u64 step) const override { return numbers_.front()->result(step); }
  LossScale loss_scale_of(u64 step) const override { return numbers_.front()->loss_scale_of(step); }
  RoutingResult routing(u64 step) const override {
    return nodes_ ? nodes_->routing(step) : routing_->sum(step);
  }
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) override {
    nodes_->add_gradient(window, begin, elements, grad);
  }
  void pack(u64 step, std::span<std::byte> packed) override { nodes_->pack(step, packed); }
  u64 votes(u64 step) const override { return nodes_ ? nodes_->votes(step) : 0; }
  void set_loss_scale(const LossScale&) override;
  Result<void> run_at_rest(const Issue&, u32 times) override;
  bool host_reaches_frames() const override { return false; }
  Result<void> copy_at_rest(ChunkId, LaneKind, std::span<std::byte> to,
                            std::span<const std::byte> from) override;

 private:
  Result<void> start_numbers();
  Result<void> start_lanes();
  Result<void> tune_products();
  std::vector<LaneId> suspected_lanes(LaneId told) const;
  std::string suspects(const Issue& told) const;
  Result<void> start_lane(LaneId, std::vector<StreamLaneParts::Stream>);
  CudaDevice& device(u32 number) const { return *parts_.devices[number].device; }

  ExecutorCommon& common_;
  const CudaLanesParts parts_;
  std::vector<std::unique_ptr<DeviceNumbers>> numbers_;  // by device
  std::unique_ptr<RoutingSum> routing_;
  std::unique_ptr<NodeNumbers> nodes_;  // null: one node
  std::unique_ptr<CudaWork> work_;
  std::unique_ptr<OpGraphs> graphs_;                  // wraps the work; lanes submit to it
  std::vector<cudaEvent_t> ends_;                     // ring by sequence: ends of ops on streams
  std::unique_ptr<CollectiveWatch> watch_;            // with several devices; outlives the lanes
  std::vector<std::unique_ptr<StreamLane>> streams_;  // by lane number; null for host and disk
};

Result<void> CudaLanes::start() {
  TRY(tune_products());
  TRY(start_numbers());
  routing_ = std::make_unique<RoutingSum>(common_.plan, common_.request.source,
                                          static_cast<u32>(common_.graph.blocks.size()) - 1, numbers_);
  std::vector<CudaWorkDevice> devices;
  for (u32 d = 0; d < common_.plan.devices; ++d)
    devices.push_back({.kernels = parts_.devices[d].kernels, .numbers = numbers_[d].get()});
  if (common_.plan.nodes > 1) nodes_ = std::make_unique<NodeNumbers>(common_, numbers_);
  work_ = std::make_unique<CudaWork>(common_, std::move(devices), parts_.collectives, nodes_.get());
  graphs_ = std::make_unique<OpGraphs>(OpGraphsParts{
      .work = *work_, .plan = common_.plan, .graph = common_.graph, .allowance = parts_.graphs});
  return start_lanes();
}

Result<void> CudaLanes::start_numbers() {
  for (const CudaLaneDevice& d : parts_.devices) {
    TRY_CUDA(cudaSetDevice(d.device->index()), "using cuda:" + std::to_string(d.device->index()));
    TRY_ASSIGN(numbers_.emplace_back(),
               DeviceNumbers::create(
                   common_.plan, common_.graph, common_.request.source,
                   {.device = d.device->index(), .memory = d.numbers, .compute = d.device->compute()}));
  }
  return {};
}

Result<void> CudaLanes::tune_products() {
  for (u32 d = 0; d < common_.plan.devices; ++d) {
    if (parts_.devices[d].tuning == nullptr) continue;
    TRY_CUDA(cudaSetDevice(device(d).index()), "using " + device(d).name());
    TRY(tidepool::tune_products({.plan = common_.plan,
                                 .graph = common_.graph,
                                 .memory = common_.memory,
                                 .device = device(d),
                                 .number = d,
                                 .kernels = *parts_.devices[d].tuning,
                                 .staging = common_.request.staging}));
  }
  if (common_.request.products_tuned) common_.request.products_tuned();
  return {};
}

Result<void> CudaLanes::start_lanes() {
  for (u32 d = 0; d < common_.plan.devices; ++d) {
    const auto start = [&](LaneKind kind, cudaStream_t stream) {
      return start_lane({static_cast<u16>(d), kind}, {{device(d).index(), stream}});
    };
    TRY(start(LaneKind::compute, device(d).compute()));
    TRY(start(LaneKind::h2d, device(d).h2d()));
    TRY(start(LaneKind::d2h, device(d).d2h()));
  }
  if (parts_.collectives == nullptr) return {};
  TRY_ASSIGN(watch_, CollectiveWatch::create(*parts_.collectives, common_.board));
  std::vector<StreamLaneParts::Stream> all;
  for (u32 d = 0; d < common_.plan.devices; ++d)
    all.push_back({device(d).index(), parts_.collectives->stream(d)});
  return start_lane({.kind = LaneKind::comm}, std::move(all));
}

Result<void> CudaLanes::start_lane(LaneId lane, std::vector<StreamLaneParts::Stream> streams) {
  TRY_ASSIGN(streams_[common_.book.number(lane)],
             StreamLane::create({.name = lane_thread_name(lane),
                                 .streams = std::move(streams),
                                 .work = *graphs_,
                                 .clock = common_.clock,
                                 .board = common_.board,
                                 .suspects = [this](const Issue& asked) { return suspects(asked); }}));
  return {};
}

// RETURNS: lanes whose ops may have caused the error that lane `told` received: lanes of its device, and
// collectives of all devices. Compute comes first, because copies seldom fail.
std::vector<LaneId> CudaLanes::suspected_lanes(LaneId told) const {
  std::vector<LaneId> lanes;
  if (told.kind != LaneKind::comm) {
    for (const LaneKind kind : {LaneKind::compute, LaneKind::h2d, LaneKind::d2h})
      lanes.push_back({told.device, kind});
  } else {
    for (u32 d = 0; d < common_.plan.devices; ++d) lanes.push_back({static_cast<u16>(d), LaneKind::compute});
  }
  if (parts_.collectives != nullptr) lanes.push_back({.kind = LaneKind::comm});
  return lanes;
}

// Lists suspected ops: a failing device reports to the next call of any lane, and does not say which op
// failed.
std::string CudaLanes::suspects(const Issue& told) const {
  std::vector<std::string> all;
  bool has_told = false;
  for (const LaneId lane : suspected_lanes(told.get().lane)) {
    for (const Issue& issue : streams_[common_.book.number(lane)]->in_flight()) {
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
void CudaLanes::stop() {
  if (parts_.collectives != nullptr && common_.board.failed()) parts_.collectives->abort();
  for (const auto& lane : streams_)  // stops all before destroying any: each may name ops of the others
    if (lane != nullptr) lane->stop();
}

void CudaLanes::submit(const Issue& issue, std::span<const u64> in_flight) {
  std::array<cudaEvent_t, in_flight_max> after{};
  CHECK(in_flight.size() <= after.size(), in_flight.size());
  for (u32 i = 0; i < in_flight.size(); ++i) after[i] = ends_[in_flight[i] & (ends_.size() - 1)];
  ends_[issue.sequence & (ends_.size() - 1)] = streams_[common_.book.number(issue.get().lane)]->submit(
      issue, std::span(after).first(in_flight.size()));
}

// ---- at rest

void CudaLanes::set_loss_scale(const LossScale& scale) {
  if (nodes_) nodes_->set_loss_scale(scale);
  for (u32 d = 0; d < numbers_.size(); ++d) {
    cudaSetDevice(device(d).index());
    numbers_[d]->set_loss_scale(scale);
  }
}

Result<void> CudaLanes::run_at_rest(const Issue& issue, u32 times) {
  const auto doing = [&] { return work_->describe(issue); };
  const CudaDevice& on = device(issue.get().lane.device);
  TRY_CUDA(cudaSetDevice(on.index()), doing());
  for (u32 i = 0; i < times; ++i) TRY(enqueue_named(*work_, issue, 0, on.compute()));
  TRY_CUDA(cudaStreamSynchronize(on.compute()), doing());
  return {};
}

Result<void> CudaLanes::copy_at_rest(ChunkId id, LaneKind lane, std::span<std::byte> to,
                                     std::span<const std::byte> from) {
  const bool down = lane == LaneKind::d2h;
  const u32 number = common_.plan.homes[index(id)].device;
  const auto doing = [&] {
    const Chunk& chunk = common_.plan.chunk(id);
    return fmt::format("at rest, {} {} of {} cut {} on device {} {} ({:.2f} MiB)",
                       down ? "reading" : "writing", common_.plan.state_slots.name(chunk.kind),
                       common_.graph.windows[chunk.window].name, chunk.cut, number, name(lane),
                       static_cast<double>(to.size()) / static_cast<double>(mib));
  };
  const CudaDevice& on = device(number);
  const cudaStream_t stream = down ? on.d2h() : on.h2d();
  TRY_CUDA(cudaSetDevice(on.index()), doing());
  TRY_CUDA(cudaMemcpyAsync(to.data(), from.data(), to.size(),
                           down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream),
           doing());
  TRY_CUDA(cudaStreamSynchronize(stream), doing());
  return {};
}

}  // namespace

Result<std::unique_ptr<TrainingExecutor>> create_cuda_executor(const Plan& plan, const ModelGraph& graph,
                                                               CorePool& pool, const CudaLanesParts& parts,
                                                               const ExecutorRequest& request) {
  CHECK(plan.devices == parts.devices.size() && (plan.replicas() > 1) == (parts.collectives != nullptr),
        plan.devices, parts.devices.size());
  std::vector<std::span<std::byte>> frames;
  for (const CudaLaneDevice& d : parts.devices) frames.push_back(d.device->frames());
  auto common = std::make_unique<ExecutorCommon>(plan, graph, pool, std::move(frames), request);
  auto lanes = std::make_unique<CudaLanes>(*common, parts);
  TRY(lanes->start());
  return TrainingExecutor::create(std::move(common), std::move(lanes));
}

}  // namespace tidepool
