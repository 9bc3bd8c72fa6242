#include "planner/shapes.h"

#include <algorithm>

namespace tidepool {
namespace {

constexpr u64 chunk_elements_usual = 16 * mib;  // 64 MiB of fp32
constexpr u64 chunk_elements_max = 64 * mib;    // for models so large that smaller chunks would be too many
constexpr u64 chunk_elements_min = cut_alignment_elements;
constexpr u64 chunk_sets_usual = 4 * kib;  // per model; planning time grows faster than the number
constexpr u64 chunk_sets_max = 64 * kib;   // smaller chunks are tried only if their number stays below this
constexpr u64 chunk_sets_of_ways_max = 4 * kib;  // ways are many, and each must be planned

// Six chunk sets of at most 16 bytes per element should take no more than a quarter of the host.
u64 chosen_chunk_elements(const ModelGraph& graph, Bytes host) {
  u64 elements = chunk_elements_usual;
  while (elements < chunk_elements_max && graph.parameters / elements > chunk_sets_usual) elements *= 2;
  while (elements > 16 * chunk_elements_min && elements * 16 * 6 * 4 > host.value) elements /= 2;
  return elements;
}

u64 given_elements(const PlanOptions& options) {
  return round_up(std::max<u64>(options.chunk_bytes.value / 4, 1), cut_alignment_elements);
}

}  // namespace

// Counts of sweeps to try. If there are many divisors, takes only those that are at least a third larger than
// the one before: each is a search of its own, and 1000 micro-batches have 16 divisors.
std::vector<u32> sweeps_to_try(const PlanOptions& options) {
  if (options.sweeps != 0) return {options.sweeps};
  std::vector<u32> sweeps;
  const u32 micro_batches = options.micro_batches_per_replica();
  for (u32 s = 1; s <= micro_batches; ++s)
    if (micro_batches % s == 0 && (sweeps.empty() || 3 * u64{s} >= 4 * u64{sweeps.back()}))
      sweeps.push_back(s);
  return sweeps;
}

std::vector<u64> chunk_elements_to_try(const ModelGraph& graph, const PlanOptions& options) {
  if (options.chunk_bytes.value != 0) return {given_elements(options)};
  std::vector<u64> sizes = {chosen_chunk_elements(graph, options.budgets.host)};
  while (sizes.back() > chunk_elements_min && graph.parameters / (sizes.back() / 2) <= chunk_sets_max)
    sizes.push_back(sizes.back() / 2);
  return sizes;
}

std::vector<u64> chunk_elements_of_ways(const ModelGraph& graph, const PlanOptions& options) {
  constexpr u64 times = 8;
  constexpr u64 count = 3;
  if (options.chunk_bytes.value != 0) return {given_elements(options)};
  u64 elements = chunk_elements_min;
  while (elements < chunk_elements_max && graph.parameters / elements > chunk_sets_of_ways_max) elements *= 2;
  std::vector<u64> sizes = {elements};
  while (sizes.size() < count && sizes.back() * times <= chunk_elements_max &&
         sizes.back() < graph.parameters)
    sizes.push_back(sizes.back() * times);
  std::ranges::reverse(sizes);
  return sizes;
}

}  // namespace tidepool
