#include "probe/machine_of.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>

#include "machine/contradiction.h"
#include "machine/roofline.h"
#include "probe/disk_meter.h"
#include "probe/gpu_meters.h"
#include "probe/meter.h"
#include "probe/update_load.h"

namespace tidepool {
namespace {

double rounded(double value) { return std::stod(fmt::format("{:.3e}", value)); }

// A GPU without bf16 products counts as fast in bf16 as in fp32.
double rate_of_products(const Rates& rates, Precision precision) {
  const MeasuredRate* best = best_product(rates, precision);
  return (best != nullptr ? best : best_product(rates, Precision::fp32))->median();
}

DeviceRates device_of(const Rates& rates, const MachineFacts& facts) {
  const double fp32 = rate_of_products(rates, Precision::fp32),
               bf16 = rate_of_products(rates, Precision::bf16);
  DeviceRates device{.name = facts.cpu, .kind = DeviceKind::cpu, .count = 1, .memory = facts.memory};
  if (facts.gpu)
    device = {.name = facts.gpu->name,
              .kind = DeviceKind::cuda,
              .count = std::max(1u, facts.gpu->count),
              .memory = facts.gpu->memory,
              .processors = facts.gpu->processors};
  device.memory_bytes_per_s = rounded(rates.median("device.memory_rate"));
  device.flops_per_s[static_cast<u32>(MathType::fp32)] = rounded(fp32);
  device.flops_per_s[static_cast<u32>(MathType::bf16)] = rounded(bf16);
  // fp16 counts as fast as bf16. With the rate of fp32 where bf16 is slower, 16-bit work would be compared
  // with fp32.
  device.flops_per_s[static_cast<u32>(MathType::fp16)] = rounded(bf16);
  const double overhead = rates.median(facts.gpu ? launch_key : wake_up_key);
  device.op_overhead = Nanos{static_cast<u64>(std::llround(overhead * 1e7)) * 100};
  return device;
}

// Share of the peak that the products of the measured layer reached, at most 1: on a busy machine samples may
// exceed 1.
double layer_efficiency(const Rates& rates, const Machine& machine, const MachineFacts& facts) {
  double flops = 0;
  for (const KernelCost& kernel : facts.layer) flops += static_cast<double>(kernel.flops());
  const double share =
      efficiency_of(facts.layer, flops / rates.median(layer_key), machine, facts.layer_precision);
  return std::round(1e3 * share) / 1e3;
}

DiskRates disk_of(const Rates& rates, const MachineFacts& facts) {
  DiskRates disk;
  if (rates.find("disk.read") == nullptr) return disk;
  disk.capacity = Bytes{facts.disk_free.value / mib * mib};
  disk.read_bytes_per_s = rounded(rates.median("disk.read"));
  disk.write_bytes_per_s = rounded(rates.median("disk.write"));
  disk.mixed_bytes_per_s = rounded(rates.median("disk.mixed"));
  for (Bytes block : point_blocks)
    for (u32 depth : point_depths)
      disk.points.push_back({block, depth, rounded(rates.median(point_key(block, depth, DiskPattern::read))),
                             rounded(rates.median(point_key(block, depth, DiskPattern::write)))});
  return disk;
}

}  // namespace

const MeasuredRate* best_product(const Rates& rates, Precision precision) {
  const std::string key = product_key(precision, 0), prefix = key.substr(0, key.size() - 1);
  const MeasuredRate* best = nullptr;
  for (const MeasuredRate& rate : rates.all())
    if (rate.key.starts_with(prefix) && (best == nullptr || rate.median() > best->median())) best = &rate;
  return best;
}

Machine machine_of(const Rates& rates, const MachineFacts& facts) {
  Machine m;
  m.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  m.device = device_of(rates, facts);
  m.device.block_efficiency = layer_efficiency(rates, m, facts);
  m.copies.h2d_bytes_per_s = rounded(rates.median("copies.h2d"));
  m.copies.d2h_bytes_per_s = rounded(rates.median("copies.d2h"));
  m.copies.both_bytes_per_s = rounded(rates.median("copies.both"));
  m.host = {.name = facts.cpu, .cores = facts.cores, .numa_nodes = facts.numa_nodes, .memory = facts.memory};
  m.host.memory_bytes_per_s = rounded(rates.median("host.memory_rate"));
  m.host.update_bytes_per_s = rounded(rates.median(host_update_key()));
  m.host.checksum_bytes_per_s = rounded(rates.median("host.checksum"));
  m.disk = disk_of(rates, facts);
  reconcile(m);
  return m;
}

}  // namespace tidepool
