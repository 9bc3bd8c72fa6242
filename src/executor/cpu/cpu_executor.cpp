#include "executor/cpu/cpu_executor.h"

#include <cstring>
#include <utility>

#include "executor/cpu/op_runner.h"

namespace tidepool {
namespace {

class CpuLanes final : public DeviceLanes {
 public:
  static Result<std::unique_ptr<DeviceLanes>> create(ExecutorCommon& common, std::vector<Kernels*> kernels) {
    auto lanes = std::make_unique<CpuLanes>(common, std::move(kernels));
    TRY(lanes->start());
    return std::unique_ptr<DeviceLanes>(std::move(lanes));
  }
  CpuLanes(ExecutorCommon& common, std::vector<Kernels*> kernels)
      : common_(common), runner_(common, std::move(kernels)), threads_(common.book.lanes()) {}

  void submit(const Issue& issue, std::span<const u64> in_flight) override {
    threads_[common_.book.number(issue.get().lane)]->push(issue, in_flight);
  }
  void stop() override { threads_.clear(); }

  StepResult result(u64 step) const override { return runner_.result(step); }
  LossScale loss_scale_of(u64 step) const override { return runner_.loss_scale_of(step); }
  RoutingResult routing(u64 step) const override { return runner_.routing(step); }
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) override {
    runner_.add_gradient(window, begin, elements, grad);
  }
  void pack(u64 step, std::span<std::byte> packed) override { runner_.pack(step, packed); }
  u64 votes(u64 step) const override { return runner_.votes(step); }
  void set_loss_scale(const LossScale& scale) override { runner_.set_loss_scale(scale); }
  Result<void> run_at_rest(const Issue& issue, u32 times) override {
    for (u32 i = 0; i < times; ++i) TRY(runner_.run(issue));
    return {};
  }
  bool host_reaches_frames() const override { return true; }
  Result<void> copy_at_rest(ChunkId, LaneKind, std::span<std::byte> to,
                            std::span<const std::byte> from) override {
    std::memcpy(to.data(), from.data(), to.size());
    return {};
  }

 private:
  Result<void> start() {
    if (common_.plan.replicas() > 1) TRY(start_lane({.kind = LaneKind::comm}));
    for (u16 device = 0; device < common_.plan.devices; ++device)
      for (const LaneKind kind : {LaneKind::compute, LaneKind::h2d, LaneKind::d2h})
        TRY(start_lane({device, kind}));
    return {};
  }
  Result<void> start_lane(LaneId lane) {
    TRY_ASSIGN(threads_[common_.book.number(lane)],
               LaneThread::create(lane_thread_name(lane), runner_, common_.clock, common_.board));
    return {};
  }

  ExecutorCommon& common_;
  OpRunner runner_;
  std::vector<std::unique_ptr<LaneThread>> threads_;  // by lane number; null for host and disk
};

}  // namespace

Result<std::unique_ptr<TrainingExecutor>> create_cpu_executor(const Plan& plan, const ModelGraph& graph,
                                                              CorePool& pool,
                                                              const std::vector<CpuLaneDevice>& devices,
                                                              const ExecutorRequest& request) {
  CHECK(devices.size() == plan.devices, devices.size(), plan.devices);
  std::vector<Kernels*> kernels;
  std::vector<std::span<std::byte>> arenas;
  for (const CpuLaneDevice& device : devices) {
    CHECK(device.arena.size() >= plan.tiers[static_cast<u32>(Tier::device)].planned_peak.value,
          device.arena.size());
    kernels.push_back(device.kernels);
    arenas.push_back(device.arena);
  }
  auto common = std::make_unique<ExecutorCommon>(plan, graph, pool, std::move(arenas), request);
  TRY_ASSIGN(auto lanes, CpuLanes::create(*common, std::move(kernels)));
  return TrainingExecutor::create(std::move(common), std::move(lanes));
}

}  // namespace tidepool
