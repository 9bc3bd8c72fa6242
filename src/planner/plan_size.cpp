#include "planner/plan_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "text/budget_text.h"

namespace tidepool {
namespace {

// Reads, writes, update and copies of a chunk set in a body.
constexpr u64 ops_per_chunk_set = 14;
// On two cores of 2024: 38k chunk sets were planned in 2.5 s, 154k not in 40 s. 33k passes took 7 s, 60k
// where nothing fits 36 s: one counts as 20, so that an answer takes some 20 s at most.
constexpr u64 ops_max = 1'000'000;
constexpr u64 ops_per_pass = 20;

u64 chunk_sets(const ModelGraph& graph, u64 chunk_elements) {
  u64 sets = 0;
  for (const Window& window : graph.windows) sets += div_up(window.elements, chunk_elements);
  return sets;
}

Error takes_too_long(u64 ops, std::string why) {
  return {ErrorKind::usage,
          fmt::format("a step of this size takes too long to plan ({:.2f} times what is possible): {}",
                      static_cast<double>(ops) / ops_max, why)};
}

}  // namespace

u64 PlanSize::ops() const { return ops_per_pass * passes + ops_per_chunk_set * chunk_sets; }

PlanSize plan_size(const ModelGraph& graph, const PlanOptions& options, u64 chunk_elements) {
  return {.passes = u64{options.micro_batches} * (2 * graph.blocks.size() + 1),
          .chunk_sets = chunk_sets(graph, chunk_elements)};
}

Result<void> check_plan_size(const ModelGraph& graph, const PlanOptions& options, u64 chunk_elements) {
  const PlanSize size = plan_size(graph, options, chunk_elements);
  if (size.ops() <= ops_max) return {};
  if (ops_per_chunk_set * size.chunk_sets > ops_max / 2) {
    u64 elements = std::bit_ceil(chunk_elements);
    while (ops_per_chunk_set * chunk_sets(graph, elements) > ops_max / 2 && elements < (u64{1} << 40))
      elements *= 2;
    if (options.chunk_bytes.value != 0)
      return takes_too_long(
          size.ops(), fmt::format("set memory.chunk_size={}, or larger", budget_text(Bytes{4 * elements})));
    return takes_too_long(
        size.ops(), fmt::format("so large a model needs larger chunks than memory.host suggests: set "
                                "memory.chunk_size={} and raise memory.host to match, or use a smaller model",
                                budget_text(Bytes{4 * elements})));
  }
  const u64 per_micro_batch = ops_per_pass * (2 * graph.blocks.size() + 1);
  const u64 left = ops_max - ops_per_chunk_set * size.chunk_sets;
  const u64 steps = std::bit_floor(std::max<u64>(left / per_micro_batch / options.devices, 1));
  return takes_too_long(size.ops(), fmt::format("set train.gradient_accumulation_steps={}, and a larger "
                                                "train.per_device_train_batch_size for as many tokens",
                                                steps));
}

}  // namespace tidepool
