// CpuDevices makes devices of this machine's cores and memory.
#include <fmt/format.h>

#include <algorithm>

#include "executor/cpu/cores_device.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/devices.h"

namespace tidepool {
namespace {

class CpuDevices final : public Devices {
 public:
  explicit CpuDevices(const DevicesRequest& request)
      : plan_(request.plan), graph_(request.graph), pool_(request.pool) {}

  Result<void> take_memory(const DevicesRequest& request) {
    const u64 bytes =
        round_up(plan_.tiers[static_cast<u32>(Tier::device)].planned_peak.value, frame_alignment);
    for (u32 d = 0; d < plan_.devices; ++d) {
      TRY_ASSIGN(auto arena, Arena::create({.name = fmt::format("device {}", d),
                                            .bytes = Bytes{std::max(bytes, frame_alignment)},
                                            .pool = &pool_,
                                            .ledger = &request.ledger}));
      devices_.push_back(std::make_unique<CoresDevice>(pool_, std::move(arena)));
    }
    return {};
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines;
    for (const auto& device : devices_) lines.push_back(device->describe());
    return lines;
  }

  Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest& request) override {
    std::vector<CpuLaneDevice> lanes;
    for (const auto& device : devices_) {
      device->set_host_memory(request.host_arena);
      lanes.push_back({.kernels = &device->kernels(), .arena = device->memory()});
    }
    return create_cpu_executor(plan_, graph_, pool_, lanes, request);
  }

  Device& at(u32 number) override { return *devices_.at(number); }

 private:
  const Plan& plan_;
  const ModelGraph& graph_;
  CorePool& pool_;
  std::vector<std::unique_ptr<CoresDevice>> devices_;
};

}  // namespace

Result<std::unique_ptr<Devices>> take_cpu_devices(const DevicesRequest& request) {
  auto devices = std::make_unique<CpuDevices>(request);
  TRY(devices->take_memory(request));
  return std::unique_ptr<Devices>(std::move(devices));
}

}  // namespace tidepool
