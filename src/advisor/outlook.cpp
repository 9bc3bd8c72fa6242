#include "advisor/outlook.h"

#include <algorithm>

#include "planner/lower_bound.h"

namespace tidepool {
namespace {

constexpr double seconds_per_day = 86'400, days_per_year = 365.25;

struct Least {
  double seconds = 0;
  std::string binds;
  void consider(double candidate, std::string_view what) {
    if (candidate > seconds) seconds = candidate, binds = what;
  }
};

// Work of one step that no plan avoids, over the rate of what does it; resources work side by side, so
// the slowest of them bounds the step.
Least least_time(const OutlookInput& in) {
  const Machine& m = in.machine;
  const auto bytes = lower_bound(in.plan, in.graph);
  const auto at = [&](LinkKind kind) { return static_cast<double>(bytes[static_cast<u32>(kind)].value); };
  const double devices = in.plan.devices;
  Least least;
  double flops = 0;
  for (const Block& block : in.graph.blocks)
    flops += static_cast<double>(block.backward_flops +
                                 (&block == &in.graph.blocks.back() ? 0 : block.forward_flops));
  const double rate = matmul_rate(m, in.plan.precision) * m.device.block_efficiency;
  least.consider(flops * in.plan.micro_batches / devices / rate, "compute");
  least.consider(at(LinkKind::h2d) / devices / m.copies.h2d_bytes_per_s, "h2d");
  least.consider(at(LinkKind::d2h) / devices / m.copies.d2h_bytes_per_s, "d2h");
  least.consider(at(LinkKind::disk_read) / m.disk.read_bytes_per_s, "disk_read");
  least.consider(at(LinkKind::disk_write) / m.disk.write_bytes_per_s, "disk_write");
  const double both =
      at(LinkKind::disk_read) / m.disk.read_bytes_per_s + at(LinkKind::disk_write) / m.disk.write_bytes_per_s;
  const double mixed =
      m.disk.mixed_bytes_per_s * (1 / m.disk.read_bytes_per_s + 1 / m.disk.write_bytes_per_s) / 2;
  least.consider(both / std::max(1.0, mixed), "disk");
  return least;
}

}  // namespace

Outlook outlook(const OutlookInput& in) {
  Outlook out;
  out.tokens_per_step = in.graph.batch.rows() * in.plan.micro_batches;
  const double step = in.forecast.step_seconds;
  out.tokens_per_second = static_cast<double>(out.tokens_per_step) / step;
  out.flops_per_second =
      out.tokens_per_second * static_cast<double>(in.graph.flops_per_token) / in.plan.devices;
  out.flops_utilization = out.flops_per_second / matmul_rate(in.machine, in.plan.precision);
  const Least least = least_time(in);
  out.least_step_seconds = least.seconds;
  out.least_binds = least.binds;
  if (in.token_budget > 0)
    out.days = static_cast<double>(in.token_budget) / out.tokens_per_second / seconds_per_day;
  out.disk_written_per_step = link_bytes(in.plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  out.disk_bytes_per_day = static_cast<double>(out.disk_written_per_step.value) / step * seconds_per_day;
  const double endurance = static_cast<double>(in.machine.disk.endurance.value);
  if (endurance > 0 && out.disk_bytes_per_day > 0)
    out.drive_life_years = endurance / out.disk_bytes_per_day / days_per_year;
  // Master, momentum and variance in fp32, and the weights in the model's precision.
  const u64 per_parameter = in.plan.precision == Precision::fp32 ? 12 : 14;
  out.checkpoint = Bytes{in.graph.parameters * per_parameter};
  out.save_seconds = static_cast<double>(out.checkpoint.value) / in.machine.disk.write_bytes_per_s;
  return out;
}

}  // namespace tidepool
