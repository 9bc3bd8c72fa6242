// CpuDevices makes devices of this machine's cores and memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
      TRY_ASSIGN(arenas_.emplace_back(), Arena::create({.name = fmt::format("device {}", d),
                                                        .bytes = Bytes{std::max(bytes, frame_alignment)},
                                                        .pool = &pool_,
                                                        .ledger = &request.ledger}));
      kernels_.push_back(create_cpu_kernels(pool_));
    }
    return {};
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines;
    for (const auto& arena : arenas_) lines.push_back(arena->describe());
    return lines;
  }

  Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest& request) override {
    std::vector<CpuLaneDevice> devices;
    for (u32 d = 0; d < plan_.devices; ++d)
      devices.push_back({.kernels = kernels_[d].get(), .arena = arenas_[d]->memory()});
    return create_cpu_executor(plan_, graph_, pool_, devices, request);
  }

  Kernels& kernels() override { return *kernels_.front(); }
  std::span<std::byte> memory() override { return arenas_.front()->memory(); }
  bool host_reaches_memory() const override { return true; }
  Result<void> copy(const Copy& h2d, const Copy& d2h) override {
    for (const Copy& c : {h2d, d2h}) {
      const u64 piece = div_up(c.to.size(), pool_.workers());
      if (piece == 0) continue;
      parallel_for(pool_, Priority::high, static_cast<u32>(div_up(c.to.size(), piece)), [&](u32 i, u32) {
        std::memcpy(c.to.data() + i * piece, c.from.data() + i * piece,
                    std::min(piece, c.to.size() - i * piece));
      });
    }
    return {};
  }

 private:
  const Plan& plan_;
  const ModelGraph& graph_;
  CorePool& pool_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Kernels>> kernels_;
};

}  // namespace

Result<std::unique_ptr<Devices>> take_cpu_devices(const DevicesRequest& request) {
  auto devices = std::make_unique<CpuDevices>(request);
  TRY(devices->take_memory(request));
  return std::unique_ptr<Devices>(std::move(devices));
}

}  // namespace tidepool
