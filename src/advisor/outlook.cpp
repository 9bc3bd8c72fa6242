#include "advisor/outlook.h"

#include "advisor/phase_bound.h"

namespace tidepool {
namespace {

constexpr double seconds_per_day = 86'400, days_per_year = 365.25;

}  // namespace

Outlook outlook(const OutlookInput& in) {
  Outlook out;
  out.tokens_per_step = in.graph.batch.rows() * in.plan.micro_batches;
  const double step = in.forecast.step_seconds;
  out.tokens_per_second = static_cast<double>(out.tokens_per_step) / step;
  out.flops_per_second =
      out.tokens_per_second * static_cast<double>(in.graph.flops_per_token) / in.plan.devices;
  out.flops_utilization = out.flops_per_second / matmul_rate(in.machine, in.plan.precision);
  double longest = 0;
  for (const PhaseBound& phase : phase_bounds({in.plan, in.graph, in.machine, {}, false})) {
    out.least_step_seconds += phase.seconds;
    if (phase.seconds > longest) longest = phase.seconds, out.least_binds = phase.binds;
  }
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
