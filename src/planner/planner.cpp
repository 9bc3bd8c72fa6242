#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/advice.h"
#include "planner/attempt.h"
#include "planner/plan_size.h"
#include "planner/verify.h"

namespace tidepool {
namespace {

constexpr u64 chunk_elements_usual = 16 * mib;  // 64 MiB of fp32
constexpr u64 chunk_elements_max = 64 * mib;    // of models so large that others would be too many
constexpr u64 chunk_elements_min = cut_alignment_elements;
constexpr u64 chunk_sets_usual = 4 * kib;  // of a model; planning takes longer than in proportion
constexpr u32 sweeps_in_vain_max = 3;
constexpr u64 chunk_sets_max = 64 * kib;  // smaller chunks are tried only where that leaves few

// Six chunk sets of at most 16 bytes per element should take no more than a quarter of the host.
u64 chosen_chunk_elements(const ModelGraph& graph, Bytes host) {
  u64 elements = chunk_elements_usual;
  while (elements < chunk_elements_max && graph.parameters / elements > chunk_sets_usual) elements *= 2;
  while (elements > 16 * chunk_elements_min && elements * 16 * 6 * 4 > host.value) elements /= 2;
  return elements;
}

// Of many divisors those that are a third more than the one before: each is a search of its own, and 1000
// micro-batches have 16.
std::vector<u32> sweeps_to_try(const PlanOptions& options) {
  if (options.sweeps != 0) return {options.sweeps};
  std::vector<u32> sweeps;
  const u32 micro_batches = options.micro_batches / options.devices;
  for (u32 s = 1; s <= micro_batches; ++s)
    if (micro_batches % s == 0 && (sweeps.empty() || 3 * u64{s} >= 4 * u64{sweeps.back()}))
      sweeps.push_back(s);
  return sweeps;
}

std::vector<u64> chunk_elements_to_try(const ModelGraph& graph, const PlanOptions& options) {
  if (options.chunk_bytes.value != 0)
    return {round_up(std::max<u64>(options.chunk_bytes.value / 4, 1), cut_alignment_elements)};
  std::vector<u64> sizes = {chosen_chunk_elements(graph, options.budgets.host)};
  while (sizes.back() > chunk_elements_min && graph.parameters / (sizes.back() / 2) <= chunk_sets_max)
    sizes.push_back(sizes.back() / 2);
  return sizes;
}

Result<void> check_options(const PlanOptions& options) {
  if (options.micro_batches == 0)
    return Error{ErrorKind::usage, "train.gradient_accumulation_steps must be at least 1"};
  if (options.devices == 0 || options.devices > devices_max)
    return Error{ErrorKind::usage,
                 fmt::format("{} devices: 1 to {} are possible", options.devices, devices_max)};
  if (options.micro_batches % options.devices != 0)
    return Error{ErrorKind::usage,
                 fmt::format("{} micro-batches per step cannot be shared out to {} devices alike",
                             options.micro_batches, options.devices)};
  if (options.sweeps != 0 && options.micro_batches / options.devices % options.sweeps != 0)
    return Error{ErrorKind::usage,
                 fmt::format("memory.sweeps={} does not divide train.gradient_accumulation_steps={}",
                             options.sweeps, options.micro_batches / options.devices)};
  return {};
}

// The first attempt that fits: fewest sweeps first, of those the largest chunks. Else what is short.
Result<Attempt> find_fitting(const ModelGraph& graph, const PlanOptions& options,
                             SearchWork* work = nullptr) {
  TRY(check_options(options));
  TRY(check_plan_size(graph, options, chunk_elements_to_try(graph, options).front()));
  if (std::optional<Error> error = too_large(graph, options)) return *std::move(error);
  std::optional<Attempt> best;
  u64 least = ~u64{0};  // shortfall, whatever the sweeps
  u32 in_vain = 0;      // counts of sweeps since
  for (u32 sweeps : sweeps_to_try(options)) {
    u64 short_by = ~u64{0};
    for (u64 elements : chunk_elements_to_try(graph, options)) {
      if (work && !work->takes(plan_size(graph, options, elements).ops()))
        return Error{ErrorKind::does_not_fit, "no plan that fits was found before the search was cut short"};
      Attempt a = attempt(graph, options, {.sweeps = sweeps, .chunk_elements = elements});
      if (a.fits) return a;
      const u64 now_short_by = shortfall(options, a);
      if (!best || now_short_by < shortfall(options, *best)) best = std::move(a);
      // What half the size saved is about what all smaller ones together can still save.
      if (short_by != ~u64{0} && 4 * (short_by - std::min(short_by, now_short_by)) < now_short_by) break;
      short_by = now_short_by;
    }
    // More sweeps need less room for activations, and more for gradients that wait in between. Past the turn
    // they only take longer to plan: 64 sweeps of 1200 chunk sets took 15 s, to no avail.
    const u64 so_far = shortfall(options, *best);
    in_vain = so_far < least ? 0 : in_vain + 1;
    if (in_vain == sweeps_in_vain_max) break;
    least = so_far;
  }
  if (!options.advise) return Error{ErrorKind::does_not_fit, "the job does not fit"};
  return does_not_fit(graph, options, *best);
}

}  // namespace

bool SearchWork::takes(u64 more) {
  if (ops != 0 && ops + more > ops_max) {
    cut = true;
    return false;
  }
  ops += more;
  return true;
}

Result<void> check_fits(const ModelGraph& graph, const PlanOptions& options, SearchWork* work) {
  TRY(find_fitting(graph, options, work));
  return {};
}

std::optional<Budgets> least_budgets(const ModelGraph& graph, const PlanOptions& options, const Budgets& most,
                                     SearchWork* work) {
  PlanOptions larger = options;
  larger.budgets = most;
  larger.advise = false;
  const Result<Attempt> found = find_fitting(graph, larger, work);
  if (!found) return std::nullopt;
  lower_again(graph, options.budgets, found->options, found->program.ops.size(), larger, work);
  return larger.budgets;
}

Result<Plan> draft_plan(const ModelGraph& graph, const PlanOptions& options) {
  TRY_ASSIGN(Attempt found, find_fitting(graph, options));
  return plan_of(graph, options, std::move(found));
}

Result<Plan> make_plan(const ModelGraph& graph, const PlanOptions& options) {
  TRY_ASSIGN(Plan plan, draft_plan(graph, options));
  TRY(verify_plan(plan, graph));
  return plan;
}

}  // namespace tidepool
