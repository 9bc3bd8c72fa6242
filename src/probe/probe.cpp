// probe_machine() runs rounds of all meters, interleaved, until the time is up; then the disk's points; then
// makes a Machine.
#include "probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/steady_seconds.h"
#include "executor/cpu/cores_device.h"
#include "executor/devices.h"
#include "io/memory_limits.h"
#include "kernels/kernels.h"
#include "machine/gpu_headroom.h"
#include "machine/topology.h"
#include "probe/disk_meter.h"
#include "probe/gpu_meters.h"
#include "probe/machine_of.h"

namespace tidepool {
namespace {

constexpr u32 rounds_min = 3, rounds_max = 15;
constexpr u32 point_passes_max = 5;
constexpr double points_share = 0.25;  // share of the probe's time
constexpr Bytes meter_memory_min{64 * mib}, meter_memory_max{1 * gib};
constexpr u64 copied_bytes_max = 64 * mib;  // on cores, each way
constexpr u64 memory_share = 16;            // each meter gets one part in this many of the available memory

Error interrupted() { return {ErrorKind::interrupted, "stopped before it was done"}; }

class Probe {
 public:
  Probe(const ProbeOptions& options, const ProbeHooks& hooks)
      : options_(options), hooks_(hooks), begin_(steady_seconds()) {}

  Result<ProbeResult> run() {
    TRY(prepare());
    TRY(measure_rounds());
    if (disk_ != nullptr) TRY(measure_points());
    out_.machine = machine_of(out_.rates, facts_);
    out_.seconds = steady_seconds() - begin_;
    return std::move(out_);
  }

 private:
  double elapsed() const { return steady_seconds() - begin_; }
  bool stopped() const { return hooks_.stop && hooks_.stop(); }
  void say(std::string_view what) const {
    if (hooks_.progress) hooks_.progress(std::min(1.0, elapsed() / options_.seconds), what);
  }

  Result<void> prepare();
  // Far more than caches hold, but a small part of the available memory; less if there is no time to walk
  // through it.
  Bytes meter_memory(Bytes available) const {
    const double most = static_cast<double>(meter_memory_max.value) * std::min(1.0, options_.seconds / 20);
    const Bytes wanted{std::min(available.value / memory_share, static_cast<u64>(most))};
    return std::max(wanted, meter_memory_min);
  }
  Result<std::unique_ptr<Meter>> open_disk();
  Result<void> create_cores_meters(const MeterOptions&);
  Result<void> create_gpu_meters(const MeterOptions&);
  Result<void> add(Result<std::unique_ptr<Meter>>);
  Result<void> take_host_memory(Bytes);
  Result<void> measure_rounds();
  Result<void> measure_round(Rates&);
  Result<void> measure_points();

  const ProbeOptions options_;
  const ProbeHooks hooks_;
  const double begin_;
  MachineFacts facts_;
  std::unique_ptr<CorePool> pool_;  // order matters: each member outlives the members below it
  std::unique_ptr<Arena> host_;
  std::unique_ptr<MeasuredDevice> device_;
  std::vector<std::unique_ptr<Meter>> meters_;
  DiskMeter* disk_ = nullptr;  // one of the meters
  ProbeResult out_;
};

Result<void> Probe::prepare() {
  say("preparing");
  std::unique_ptr<Meter> disk;  // opened first, as it may fail; measured last
  if (!options_.disk_dir.empty()) {
    TRY_ASSIGN(disk, open_disk());
  }
  if (stopped()) return interrupted();
  TRY_ASSIGN(const auto topology, create_topology());
  TRY_ASSIGN(pool_, create_core_pool(options_.threads, kernel_scratch_per_worker));
  const MemoryLimits limits = read_memory_limits();
  facts_.cpu = topology->cpu_name();
  facts_.cores = pool_->workers();
  facts_.numa_nodes = topology->numa_nodes();
  const Bytes memory = limits.cgroup ? std::min(*limits.cgroup, limits.total) : limits.total;
  facts_.memory = Bytes{memory.value / mib * mib};
  const MeterOptions meter{.slice_seconds = std::clamp(options_.seconds / 2000, 0.005, 0.02),
                           .memory = meter_memory(limits.available)};
  TRY(check_memory(limits, meter.memory * 3));
  TRY(options_.gpu ? create_gpu_meters(meter) : create_cores_meters(meter));
  if (disk != nullptr) meters_.push_back(std::move(disk));
  std::error_code unused;
  if (gpu_backend() == nullptr && std::filesystem::exists("/proc/driver/nvidia/version", unused))
    out_.notes +=
        "An NVIDIA driver is there, but this build computes on the CPU: the device measured is the CPU.\n";
  return {};
}

Result<void> Probe::add(Result<std::unique_ptr<Meter>> meter) {
  TRY_ASSIGN(auto made, std::move(meter));
  meters_.push_back(std::move(made));
  say("preparing");
  return stopped() ? interrupted() : Result<void>();
}

Result<void> Probe::take_host_memory(Bytes bytes) {
  TRY_ASSIGN(host_, Arena::create({.name = "host", .bytes = bytes, .pool = pool_.get()}));
  return {};
}

Result<void> Probe::create_cores_meters(const MeterOptions& options) {
  const Bytes chunk{std::min(copied_bytes_max, round_up(options.memory.value / 4, frame_alignment))};
  const CopyWork copies{.bytes = chunk, .piece = chunk};
  TRY(take_host_memory(copies.memory()));
  TRY_ASSIGN(device_, open_cores(*pool_, cores_layer_memory() + copies.memory(), host_->memory()));
  TRY(add(create_compute_meter(*device_, *pool_, options)));
  TRY(add(create_memory_meter(*pool_, options)));
  return add(create_copy_meter(*device_, {.work = copies, .slice_seconds = options.slice_seconds}));
}

// The GPU computes and copies; on the host only memory, updates and checksums are measured.
Result<void> Probe::create_gpu_meters(const MeterOptions& options) {
  say("preparing the GPU");
  TRY_ASSIGN(const Bytes free, gpu_backend()->free_memory(*options_.gpu));
  const Bytes beside = gpu_headroom({}, 1).total();  // must be free when the GPU is opened
  const GpuMeterOptions meter{.work = work_within({}, free > beside ? free - beside : Bytes{0}),
                              .slice_seconds = options.slice_seconds};
  TRY(take_host_memory(meter.work.host_memory()));
  TRY_ASSIGN(device_, gpu_backend()->open({.gpu = *options_.gpu,
                                           .memory = meter.work.memory(),
                                           .host_memory = host_->memory(),
                                           .attention = meter.work.attention()}));
  facts_.gpu = device_->facts();
  facts_.layer_precision = layer_precision(*facts_.gpu);
  facts_.layer = layer_costs(meter.work, facts_.layer_precision);
  TRY(add(create_gpu_compute_meter(*device_, meter)));
  TRY(add(create_copy_meter(*device_, {.work = meter.work.copies, .slice_seconds = meter.slice_seconds})));
  return add(create_memory_meter(*pool_, options));
}

Result<std::unique_ptr<Meter>> Probe::open_disk() {
  say("writing the disk's file");
  TRY_ASSIGN(auto disk, DiskMeter::create({.dir = options_.disk_dir,
                                           .slice_seconds = std::clamp(options_.seconds / 150, 0.05, 0.3),
                                           .point_seconds = std::clamp(options_.seconds / 500, 0.02, 0.1),
                                           .fill_seconds = options_.seconds / 10,
                                           .backend = options_.backend,
                                           .stop = hooks_.stop}));
  disk_ = disk.get();
  facts_.disk_free = disk->free_space();
  out_.disk = disk->describe();
  out_.notes += disk->notes();
  return std::unique_ptr<Meter>(std::move(disk));
}

Result<void> Probe::measure_rounds() {
  const double end = options_.seconds * (disk_ != nullptr ? 1 - points_share : 1);
  say("warming up");
  Rates cold;
  double round_begin = elapsed();
  TRY(measure_round(cold));
  double round_seconds = elapsed() - round_begin;
  while (out_.rounds < rounds_max && (out_.rounds < rounds_min || elapsed() + round_seconds < end)) {
    const u32 left = static_cast<u32>(std::max(0.0, (end - elapsed()) / round_seconds));
    const u32 expected = std::clamp(out_.rounds + left, rounds_min, rounds_max);
    say(fmt::format("round {} of about {}", out_.rounds + 1, expected));
    round_begin = elapsed();
    TRY(measure_round(out_.rates));
    round_seconds = elapsed() - round_begin;
    ++out_.rounds;
  }
  return {};
}

Result<void> Probe::measure_round(Rates& rates) {
  for (const auto& meter : meters_) {
    TRY(meter->measure(rates));
    if (stopped()) return interrupted();
  }
  return {};
}

Result<void> Probe::measure_points() {
  double pass_seconds = 0;
  for (u32 pass = 0; pass < point_passes_max; ++pass) {
    if (pass > 0 && elapsed() + pass_seconds > options_.seconds) break;
    say(fmt::format("disk by block size and depth, pass {}", pass + 1));
    const double pass_begin = elapsed();
    TRY(disk_->measure_points(out_.rates));
    pass_seconds = elapsed() - pass_begin;
    if (stopped()) return interrupted();
  }
  return {};
}

}  // namespace

Result<ProbeResult> probe_machine(const ProbeOptions& options, const ProbeHooks& hooks) {
  return Probe(options, hooks).run();
}

}  // namespace tidepool
