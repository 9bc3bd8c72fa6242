#include "planner/attempt.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "planner/emit.h"
#include "planner/hazards.h"
#include "planner/host_shortage.h"

namespace tidepool {
namespace {

constexpr u32 shrink_tries = 6;
constexpr u32 refine_tries = 5;
constexpr u32 home_tries = 4;

// Placing can leave gaps; then the tier is planned again with less.
// RETURNS: the tier, and the lowest peak of all tries.
template <class PlanTier>
auto fit(Bytes budget, PlanTier&& plan_tier) {
  Bytes shrink{}, too_little{};
  auto tier = plan_tier(shrink);
  Bytes least = tier.peak;
  // The last try leaves room only for content that is needed: its peak is the same for any budget, so a
  // budget of that size is enough.
  for (u32 i = 1; i <= shrink_tries && tier.peak > budget; ++i) {
    too_little = shrink;
    if (tier.needs_least > budget) i = shrink_tries;  // no try can fit: skip to the last
    shrink = i == shrink_tries ? budget : std::min(shrink + tier.peak - budget, budget);
    tier = plan_tier(shrink);
    least = std::min(least, tier.peak);
  }
  // The tier fits, but is nearly empty. A shrink between the last two often fits too.
  const bool emptied = shrink == budget && tier.peak <= budget;
  for (u32 i = 0; i < refine_tries && emptied; ++i) {
    const Bytes between = too_little + (shrink - too_little) / 2;
    auto fuller = plan_tier(between);
    if (fuller.peak > budget) {
      too_little = between;
    } else {
      tier = std::move(fuller);
      shrink = between;
    }
  }
  return std::pair(std::move(tier), least);
}

void plan_tiers_for(const ResidenceInput& in, const DeviceTierOptions& options, Attempt& out) {
  const Budgets& budgets = in.options.budgets;
  std::tie(out.device, out.need[0]) = fit(budgets.device, [&](Bytes shrink) {
    DeviceTierOptions shrunk = options;
    shrunk.shrink = shrink;
    return plan_device_tier(in, shrunk);
  });
  out.fits = out.device.peak <= budgets.device;
  if (!out.fits && !in.options.advise) return;
  std::tie(out.host, out.need[1]) =
      fit(budgets.host, [&](Bytes shrink) { return plan_host_tier(in, out.device, shrink); });
  out.need[2] = out.host.disk_bytes;
  out.fits &= out.host.peak <= budgets.host && out.host.disk_bytes <= budgets.disk;
}

// A gradient that waits on a device comes down beside an update. A host that is just large enough to stream
// has no room for that.
void plan_tiers(const ResidenceInput& in, Bytes home_bytes_least, Attempt& out) {
  const HostShortage shortage = host_shortage(in);
  plan_tiers_for(in, {.home_bytes_least = home_bytes_least, .shortage = &shortage}, out);
  if (!out.fits && shortage.most.value > 0) plan_tiers_for(in, {.home_bytes_least = home_bytes_least}, out);
}

// Rests more state on the devices if host and disk together have no room for it and the devices can make
// room.
void rest_more_on_devices(const ResidenceInput& in, Attempt& out) {
  const Budgets& budgets = in.options.budgets;
  for (u32 i = 0; i < home_tries; ++i) {
    const bool short_of_disk = out.device.peak <= budgets.device && out.host.peak <= budgets.host &&
                               out.host.disk_bytes > budgets.disk;
    if (in.options.home != HomePolicy::automatic || !short_of_disk) return;
    const u64 short_by = (out.host.disk_bytes - budgets.disk).value;
    Attempt more;
    plan_tiers(in, out.device.home_bytes + Bytes{div_up(short_by, in.options.devices)}, more);
    if (more.device.peak > budgets.device) return;
    out.device = std::move(more.device), out.host = std::move(more.host);
    out.need = more.need, out.fits = more.fits;
  }
}

// Sets the working sets to the least: no room to stream ahead is declared. State rests where the candidate
// has it, even if that leaves no such room.
Attempt with_least_sets(Attempt out) {
  out.device.working_set = out.device.least_set;
  out.host.working_set = out.host.least_set;
  return out;
}

}  // namespace

Attempt make_parts(const ModelGraph& graph, const PlanOptions& options, const AttemptOptions& choice) {
  const u32 micro_batches = options.micro_batches_per_replica();
  Attempt out;
  out.options = choice;
  out.clipping = updates_wait(graph, options);
  out.layout = make_layout(graph, {.target_elements = choice.chunk_elements,
                                   .micro_batches = micro_batches / choice.sweeps,
                                   .devices = options.devices,
                                   .parallel = options.parallel,
                                   .nodes = options.nodes,
                                   .step_micro_batches = micro_batches * options.replicas(),
                                   .node = options.node,
                                   .updates_wait = !options.speculates,
                                   .looks_up = looks_up(graph, options)});
  out.program = make_program(graph, out.layout,
                             {.micro_batches = micro_batches,
                              .sweeps = choice.sweeps,
                              .clipping = out.clipping,
                              .devices = options.devices,
                              .parallel = options.parallel,
                              .nodes = options.nodes,
                              .node = options.node});
  return out;
}

Attempt attempt(const ModelGraph& graph, const PlanOptions& given, const AttemptOptions& choice) {
  Attempt out = make_parts(graph, given, choice);
  PlanOptions options = given;
  options.clipping = out.clipping;
  const ResidenceInput in{graph, out.layout, out.program, options};
  plan_tiers(in, Bytes{0}, out);
  rest_more_on_devices(in, out);
  return out;
}

PlanOptions options_of(const PlanOptions& options, const TierCandidate& candidate) {
  PlanOptions out = options;
  out.budgets = {candidate.device_budget, candidate.host_budget, Bytes{0}};
  return out;
}

Attempt attempt_candidate(const ModelGraph& graph, const PlanOptions& given, const TierCandidate& candidate) {
  Attempt out = make_parts(graph, given, candidate.shape);
  PlanOptions options = given;
  options.clipping = out.clipping;
  options.advise = false;
  const ResidenceInput in{graph, out.layout, out.program, options};
  plan_tiers(in, candidate.device.home_bytes_least, out);
  if (out.fits) return with_least_sets(std::move(out));
  const PlanOptions own_budgets = options_of(options, candidate);
  const ResidenceInput own{graph, out.layout, out.program, own_budgets};
  out.device = plan_device_tier(own, candidate.device);
  out.host =
      fit(options.budgets.host, [&](Bytes shrink) { return plan_host_tier(in, out.device, shrink); }).first;
  const auto host_fits = [&] {
    return out.host.peak <= options.budgets.host && out.host.disk_bytes <= options.budgets.disk;
  };
  if (!host_fits()) out.host = plan_host_tier(own, out.device, Bytes{0});
  out.fits = out.device.peak <= options.budgets.device && host_fits();
  CHECK(out.fits, out.device.peak.value, out.host.peak.value, out.host.disk_bytes.value);
  return with_least_sets(std::move(out));
}

Plan plan_of(const ModelGraph& graph, const PlanOptions& options, Attempt&& a) {
  CHECK(a.fits, a.options.sweeps, a.options.chunk_elements);
  Plan plan;
  plan.precision = graph.precision;
  plan.state_slots = graph.state_slots;
  plan.micro_batches = options.micro_batches;
  plan.sweeps = a.options.sweeps;
  plan.pieces = graph.batch.pieces();
  plan.devices = options.devices;
  plan.parallel = options.parallel;
  plan.nodes = options.nodes;
  plan.node = options.node;
  plan.clipping = a.clipping;
  plan.speculates = norm_counts(graph, options) && options.speculates;
  plan.chunk_elements = a.options.chunk_elements;
  plan.lookup = a.layout.lookup;
  plan.chunks = a.layout.chunks;
  const auto most = [](const std::vector<u64>& v) { return Bytes{*std::max_element(v.begin(), v.end())}; };
  plan.tiers = {TierUse{options.budgets.device, a.device.peak, most(a.device.working_set)},
                TierUse{options.budgets.host, a.host.peak, most(a.host.working_set)},
                TierUse{options.budgets.disk, a.host.disk_bytes, Bytes{0}}};
  emit_segments({graph, a.layout, a.program, options}, a.device, a.host, plan);
  plan.working_set = {std::move(a.device.working_set), std::move(a.host.working_set)};
  plan.least_set = {std::move(a.device.least_set), std::move(a.host.least_set)};
  add_edges(plan);
  return plan;
}

u64 shortfall(const PlanOptions& options, const Attempt& a) {
  u64 sum = 0;
  for (u32 t = 0; t < tier_count; ++t) {
    const Bytes budget = options.budgets.of(static_cast<Tier>(t));
    if (a.need[t] > budget) sum += (a.need[t] - budget).value;
  }
  return sum;
}

}  // namespace tidepool
