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
    CpuExecutorParts parts{.pool = pool_,
                           .kernels = {},
                           .source = request.source,
                           .device_arenas = {},
                           .host_arena = request.host_arena,
                           .staging = request.staging,
                           .open_disk = request.open_disk,
                           .disk_depth = request.disk_depth,
                           .seed = request.seed,
                           .rest_patience = request.rest_patience};
    for (u32 d = 0; d < plan_.devices; ++d) {
      parts.kernels.push_back(kernels_[d].get());
      parts.device_arenas.push_back(arenas_[d]->memory());
    }
    TRY_ASSIGN(std::unique_ptr<CpuExecutor> executor, CpuExecutor::create(plan_, graph_, parts));
    return std::unique_ptr<TrainingExecutor>(std::move(executor));
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
