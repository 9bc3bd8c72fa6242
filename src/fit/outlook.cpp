#include "fit/outlook.h"

#include "fit/phase_bound.h"
#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

constexpr double seconds_per_day = 86'400, days_per_year = 365.25;

// Measured on 2 cores of a Xeon, checkpoints of 1 to 1140 MiB. The smallest took 3.6 to 4.3 ms: seven fsyncs
// and seven files. Beyond the disk's write rate, each GB took 0.6 s, in which one thread gathers, hashes and
// hands over the bytes.
constexpr double save_fixed_seconds = 0.004, save_bytes_per_s = 1.7e9;

// Pieces are read, hashed and written one after the other, so nothing overlaps.
double save_seconds(const Plan& plan, const DiskRates& disk, Bytes checkpoint) {
  Bytes on_disk{};
  for (const Frame& home : plan.homes)
    if (home.tier == Tier::disk) on_disk += home.bytes;
  return save_fixed_seconds + static_cast<double>(on_disk.value) / disk.read_bytes_per_s +
         static_cast<double>(checkpoint.value) * (1 / save_bytes_per_s + 1 / disk.write_bytes_per_s);
}

}  // namespace

Outlook outlook(const ModelGraph& graph, const RunPlan& run, u64 token_budget) {
  const Plan& plan = run.plan;
  const Machine& machine = *run.machine;
  Outlook out;
  out.tokens_per_step = graph.batch.rows() * plan.micro_batches;
  const double step = run.forecast->step_seconds;
  out.tokens_per_second = static_cast<double>(out.tokens_per_step) / step;
  out.flops_per_second =
      out.tokens_per_second * static_cast<double>(graph.flops_per_token) / (plan.devices * plan.nodes);
  out.flops_utilization = out.flops_per_second / matmul_rate(machine, plan.precision);
  double longest = 0;
  for (const PhaseBound& phase : phase_bounds({plan, graph, machine, {}, false})) {
    out.least_step_seconds += phase.seconds;
    if (phase.seconds > longest) longest = phase.seconds, out.least_binds = phase.binds;
  }
  out.compute_busiest = tokens_to_bind(plan, graph, machine);
  if (token_budget > 0)
    out.days = static_cast<double>(token_budget) / out.tokens_per_second / seconds_per_day;
  out.disk_written_per_step = link_bytes(plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  out.disk_bytes_per_day = static_cast<double>(out.disk_written_per_step.value) / step * seconds_per_day;
  const double endurance = static_cast<double>(machine.disk.endurance.value);
  if (endurance > 0 && out.disk_bytes_per_day > 0)
    out.drive_life_years = endurance / out.disk_bytes_per_day / days_per_year;
  // The weights in the model's precision, the master in fp32, and the slots of the tensor's rule as they are.
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) {
      if (!window.trainable) continue;
      out.checkpoint += Bytes{values_bytes(tensor.elements, plan.precision)};
      plan.state_slots.each_of_rule(tensor.rule, [&](Kind slot) {
        const u64 elements = slot_elements(plan.state_slots.axis(slot), tensor);
        out.checkpoint += Bytes{plan.state_slots.is_master(slot) ? elements * sizeof(float)
                                                                 : plan.state_slots.bytes(slot, elements)};
      });
    }
  out.save_seconds = save_seconds(plan, machine.disk, out.checkpoint);
  return out;
}

}  // namespace tidepool
