#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/emit.h"
#include "planner/hazards.h"
#include "planner/residence.h"
#include "planner/verify.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

constexpr u64 chunk_elements_max = 16 * mib;  // 64 MiB of fp32
constexpr u64 chunk_elements_min = cut_alignment_elements;
constexpr u64 chunk_sets_max = 64 * kib;      // of a model: smaller chunks are tried only where that leaves few
constexpr u32 shrink_tries = 6;

// Six chunk sets of at most 16 bytes per element should take no more than a quarter of the host.
u64 chosen_chunk_elements(Bytes host) {
  u64 elements = chunk_elements_max;
  while (elements > 16 * chunk_elements_min && elements * 16 * 6 * 4 > host.value) elements /= 2;
  return elements;
}

struct Attempt {
  Plan plan;
  std::array<Bytes, tier_count> need{};  // of each tier, whatever the budgets
  bool fits = false;
};

// One plan for given sweeps and chunk size. Placing can leave gaps; then it plans with less.
Attempt attempt(const ModelGraph& graph, const PlanOptions& given, u32 sweeps, u64 chunk_elements) {
  PlanOptions options = given;
  options.clipping &= trains(graph);  // no updates, none that wait
  const u32 micro_batches = options.micro_batches / options.devices;  // of each
  const Layout layout = make_layout(graph, {.target_elements = chunk_elements,
                                            .micro_batches = micro_batches / sweeps,
                                            .devices = options.devices});
  const Program program = make_program(graph, layout,
                                       {.micro_batches = micro_batches,
                                        .sweeps = sweeps,
                                        .clipping = options.clipping,
                                        .devices = options.devices});
  const ResidenceInput in{graph, layout, program, options};
  const auto fit = [](auto&& plan_tier, Bytes budget) {
    Bytes shrink{};
    auto tier = plan_tier(shrink);
    Bytes least = tier.peak;
    // The last try has no room for anything but what is needed: its peak is the same for any budget, so
    // it is the budget that would do.
    for (u32 i = 1; i <= shrink_tries && tier.peak > budget; ++i) {
      shrink = i == shrink_tries ? budget : std::min(shrink + tier.peak - budget, budget);
      tier = plan_tier(shrink);
      least = std::min(least, tier.peak);
    }
    return std::pair(std::move(tier), least);
  };
  Attempt out;
  auto [device, device_need] =
      fit([&](Bytes shrink) { return plan_device_tier(in, shrink); }, options.budgets.device);
  auto [host, host_need] =
      fit([&](Bytes shrink) { return plan_host_tier(in, device, shrink); }, options.budgets.host);
  out.need = {device_need, host_need, host.disk_bytes};
  out.fits = device.peak <= options.budgets.device && host.peak <= options.budgets.host &&
             host.disk_bytes <= options.budgets.disk;
  Plan& plan = out.plan;
  plan.precision = graph.precision;
  plan.micro_batches = options.micro_batches;
  plan.sweeps = sweeps;
  plan.devices = options.devices;
  plan.clipping = options.clipping;
  plan.chunk_elements = chunk_elements;
  plan.chunks = layout.chunks;
  const auto most = [](const std::vector<u64>& v) { return Bytes{*std::max_element(v.begin(), v.end())}; };
  plan.tiers = {TierUse{options.budgets.device, device.peak, most(device.working_set)},
                TierUse{options.budgets.host, host.peak, most(host.working_set)},
                TierUse{options.budgets.disk, host.disk_bytes, Bytes{0}}};
  plan.working_set = {std::move(device.working_set), std::move(host.working_set)};
  if (out.fits) {
    emit_segments(in, device, host, plan);
    add_edges(plan);
  }
  return out;
}

std::vector<u32> sweeps_to_try(const PlanOptions& options) {
  if (options.sweeps != 0) return {options.sweeps};
  std::vector<u32> sweeps;
  const u32 micro_batches = options.micro_batches / options.devices;
  for (u32 s = 1; s <= micro_batches; ++s)
    if (micro_batches % s == 0) sweeps.push_back(s);
  return sweeps;
}

std::vector<u64> chunk_elements_to_try(const ModelGraph& graph, const PlanOptions& options) {
  if (options.chunk_bytes.value != 0)
    return {round_up(std::max<u64>(options.chunk_bytes.value / 4, 1), cut_alignment_elements)};
  std::vector<u64> sizes = {chosen_chunk_elements(options.budgets.host)};
  while (sizes.back() > chunk_elements_min && graph.parameters / (sizes.back() / 2) <= chunk_sets_max)
    sizes.push_back(sizes.back() / 2);
  return sizes;
}

// As people write it in a config, rounded up.
std::string bytes_text(Bytes bytes) {
  if (bytes.value < 16 * mib) return fmt::format("{}KiB", div_up(bytes.value, kib));
  return fmt::format("{}MiB", div_up(bytes.value, mib));
}

// Raises what is short to what is needed, as it will be written in a config.
Budgets raised(const Budgets& budgets, const Attempt& a) {
  const auto raise = [](Bytes budget, Bytes need) {
    const u64 unit = need.value < 16 * mib ? kib : mib;
    return need > budget ? Bytes{round_up(need.value, unit)} : budget;
  };
  return {raise(budgets.device, a.need[0]), raise(budgets.host, a.need[1]), raise(budgets.disk, a.need[2])};
}

// Which tier is short, and the smallest change that fits: found by planning it, because more of one
// tier changes what the others hold.
Error does_not_fit(const ModelGraph& graph, const PlanOptions& options, const Attempt& best) {
  constexpr u32 rounds_max = 16;
  PlanOptions larger = options;
  larger.budgets = raised(options.budgets, best);
  for (u32 i = 0; i < rounds_max; ++i) {
    const Attempt a = attempt(graph, larger, best.plan.sweeps, best.plan.chunk_elements);
    if (a.fits) break;
    larger.budgets = raised(larger.budgets, a);
  }
  std::string message = "the job does not fit:";
  for (u32 t = 0; t < tier_count; ++t) {
    const Tier tier = static_cast<Tier>(t);
    const Bytes budget = options.budgets.of(tier), need = larger.budgets.of(tier);
    if (need <= budget) continue;
    message += fmt::format(" {} needs {} and has {} (short by {}): set memory.{}={};", name(tier),
                           bytes_text(need), bytes_text(budget), bytes_text(need - budget), name(tier),
                           bytes_text(need));
  }
  message += " or use a shorter train.sequence_length, a smaller train.per_device_train_batch_size, or a smaller model";
  return {ErrorKind::does_not_fit, std::move(message)};
}

Result<void> check_options(const PlanOptions& options) {
  if (options.micro_batches == 0)
    return Error{ErrorKind::usage, "train.gradient_accumulation_steps must be at least 1"};
  if (options.devices == 0 || options.devices > devices_max)
    return Error{ErrorKind::usage, fmt::format("{} devices: 1 to {} are possible", options.devices, devices_max)};
  if (options.micro_batches % options.devices != 0)
    return Error{ErrorKind::usage, fmt::format("{} micro-batches per step cannot be shared out to {} devices alike",
                                               options.micro_batches, options.devices)};
  if (options.sweeps != 0 && options.micro_batches / options.devices % options.sweeps != 0)
    return Error{ErrorKind::usage,
                 fmt::format("memory.sweeps={} does not divide train.gradient_accumulation_steps={}",
                             options.sweeps, options.micro_batches / options.devices)};
  return {};
}

u64 shortfall(const PlanOptions& options, const Attempt& a) {
  u64 sum = 0;
  for (u32 t = 0; t < tier_count; ++t) {
    const Bytes budget = options.budgets.of(static_cast<Tier>(t));
    if (a.need[t] > budget) sum += (a.need[t] - budget).value;
  }
  return sum;
}

// What all tiers together must hold at least: every persistent chunk, once.
u64 state_bytes(const ModelGraph& graph) {
  u64 bytes = 0;
  for (const Window& window : graph.windows)
    for (const Kind kind : {Kind::param, Kind::master_low, Kind::momentum, Kind::variance})
      if (kind == Kind::param || (trains(graph) && (kind != Kind::master_low || graph.precision == Precision::bf16)))
        bytes += window.elements * element_bytes(kind, graph.precision);
  return bytes;
}

// Told at once, without trying: no choice makes room for it. If disk is all that is short, how much is
// known from one plan with as much as it likes.
std::optional<Error> too_large(const ModelGraph& graph, const PlanOptions& options) {
  const u64 state = state_bytes(graph);
  const Budgets& budgets = options.budgets;
  constexpr Bytes unlimited{~u64{0} / 2};
  if (budgets.disk >= unlimited || state <= budgets.device.value * options.devices + (budgets.host + budgets.disk).value)
    return std::nullopt;
  Error error{ErrorKind::does_not_fit, "the job does not fit"};
  if (!options.advise) return error;
  PlanOptions with_disk = options;
  with_disk.budgets.disk = unlimited;
  with_disk.advise = false;
  const Result<Plan> plan = make_plan(graph, with_disk);
  if (!plan) return std::nullopt;  // something else is short as well: the long way
  const Bytes need = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak;
  error.message += fmt::format(": disk needs {} and has {} (short by {}): set memory.disk={}; or use a smaller model",
                               bytes_text(need), bytes_text(budgets.disk), bytes_text(need - budgets.disk),
                               bytes_text(need));
  return error;
}

}  // namespace

Result<Plan> make_plan(const ModelGraph& graph, const PlanOptions& options) {
  TRY(check_options(options));
  if (std::optional<Error> error = too_large(graph, options)) return *std::move(error);
  std::optional<Attempt> best;
  for (u32 sweeps : sweeps_to_try(options)) {
    u64 short_by = ~u64{0};
    for (u64 elements : chunk_elements_to_try(graph, options)) {
      Attempt a = attempt(graph, options, sweeps, elements);
      if (a.fits) {
        TRY(verify_plan(a.plan, graph));
        return std::move(a.plan);
      }
      const u64 now_short_by = shortfall(options, a);
      if (!best || now_short_by < shortfall(options, *best)) best = std::move(a);
      if (now_short_by >= short_by) break;  // smaller chunks do not help any more
      short_by = now_short_by;
    }
  }
  if (!options.advise) return Error{ErrorKind::does_not_fit, "the job does not fit"};
  return does_not_fit(graph, options, *best);
}

}  // namespace tidepool
