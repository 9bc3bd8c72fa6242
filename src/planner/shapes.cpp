#include "planner/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/text/budget_text.h"
#include "planner/advice/change_text.h"
#include "tidepool/update_units.h"

namespace tidepool {
namespace {

constexpr u64 chunk_elements_usual = 16 * mib;  // 64 MiB of fp32
constexpr u64 chunk_elements_max = 64 * mib;    // for models so large that smaller chunks would be too many
constexpr u64 chunk_elements_min = cut_alignment_elements;
constexpr u64 chunk_sets_usual = 4 * kib;  // per model; planning time grows faster than the number
constexpr u64 chunk_sets_max = 64 * kib;   // smaller chunks are tried only if their number stays below this
constexpr u64 candidate_chunk_sets_max = 4 * kib;  // candidates are many, and each must be planned

// Six chunk sets of at most 16 bytes per element pass through the host. What they take cannot rest there, and
// moves twice in each step: a sixteenth of the host, or a quarter if the chunks would become many.
u64 chosen_chunk_elements(const ModelGraph& graph, Bytes host) {
  u64 elements = chunk_elements_usual;
  while (elements < chunk_elements_max && graph.parameters / elements > chunk_sets_usual) elements *= 2;
  const auto takes_over = [&](u64 part) { return elements * 16 * 6 * part > host.value; };
  const auto may_halve = [&] { return graph.parameters / elements <= chunk_sets_usual / 2; };
  while (elements > 16 * chunk_elements_min && (takes_over(4) || (takes_over(16) && may_halve())))
    elements /= 2;
  return elements;
}

u64 given_elements(const PlanOptions& options) {
  return round_up(std::max<u64>(options.chunk_bytes.value / 4, 1), cut_alignment_elements);
}

// Reads, writes, update and copies of one chunk set in a body.
constexpr u64 ops_per_chunk_set = 14;
// Measured on two cores of 2024: 38k chunk sets were planned in 2.5 s, 154k not in 40 s. 33k passes took 7 s,
// and 60k passes of a job that does not fit 36 s. A pass counts as 20 ops, so that an answer takes some 20 s
// at most.
constexpr u64 plan_ops_max = 1'000'000;
constexpr u64 ops_per_pass = 20;

u64 chunk_sets(const ModelGraph& graph, u64 chunk_elements) {
  u64 sets = 0;
  for (const Window& window : graph.windows)
    for (const UpdateUnit& unit : update_units(graph, window)) {
      const bool whole = window.trainable && graph.rules[unit.rule].unit == UnitKind::tensor;
      sets += whole ? 1 : div_up(unit.elements, chunk_elements);
    }
  return sets;
}

Error takes_too_long(u64 ops, const std::string& what_to_do, Change change) {
  return {ErrorKind::usage,
          fmt::format("a step of this size takes too long to plan ({:.2f} times what is possible): {}",
                      static_cast<double>(ops) / plan_ops_max, what_to_do),
          {std::move(change)}};
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

std::vector<u64> candidate_chunk_elements(const ModelGraph& graph, const PlanOptions& options) {
  constexpr u64 times = 8;
  constexpr u64 count = 3;
  if (options.chunk_bytes.value != 0) return {given_elements(options)};
  u64 elements = chunk_elements_min;
  while (elements < chunk_elements_max && graph.parameters / elements > candidate_chunk_sets_max)
    elements *= 2;
  std::vector<u64> sizes = {elements};
  while (sizes.size() < count && sizes.back() * times <= chunk_elements_max &&
         sizes.back() < graph.parameters)
    sizes.push_back(sizes.back() * times);
  std::ranges::reverse(sizes);
  return sizes;
}

namespace {

// Passes of each piece over the blocks: forward, recall where a block has a past, and backward.
u64 passes_of_piece(const ModelGraph& graph) {
  const u64 recalled = std::ranges::count_if(graph.blocks, [](const Block& b) { return b.past.value > 0; });
  return 2 * graph.blocks.size() + 1 + recalled;
}

// RETURNS: a size of pieces with which there are `most` at most.
u64 tokens_of_pieces(const BatchShape& batch, u64 most) {
  return div_up(u64{batch.sequences} * batch.tiles_of_sequence(), most) * batch.tile_tokens;
}

}  // namespace

u64 PlanSize::ops() const { return ops_per_pass * passes + ops_per_chunk_set * chunk_sets; }

PlanSize plan_size(const ModelGraph& graph, const PlanOptions& options, u64 chunk_elements) {
  return {
      .passes = u64{options.micro_batches / options.nodes} * graph.batch.pieces() * passes_of_piece(graph),
      .chunk_sets = chunk_sets(graph, chunk_elements)};
}

Result<void> check_plan_size(const ModelGraph& graph, const PlanOptions& options, u64 chunk_elements) {
  const PlanSize size = plan_size(graph, options, chunk_elements);
  if (size.ops() <= plan_ops_max) return {};
  if (ops_per_chunk_set * size.chunk_sets > plan_ops_max / 2) {
    u64 elements = std::bit_ceil(chunk_elements);
    while (ops_per_chunk_set * chunk_sets(graph, elements) > plan_ops_max / 2 && elements < (u64{1} << 40))
      elements *= 2;
    const Setting chunk_size{"memory.chunk_size", budget_text(Bytes{4 * elements})};
    if (options.chunk_bytes.value != 0)
      return takes_too_long(size.ops(), fmt::format("set {}, or larger", setting_text(chunk_size)),
                            Change{{chunk_size}, ""});
    return takes_too_long(
        size.ops(),
        fmt::format("so large a model needs larger chunks than memory.host suggests: set {} and raise "
                    "memory.host to match, or use a smaller model",
                    setting_text(chunk_size)),
        Change{{chunk_size}, "with memory.host to match"});
  }
  const u64 left = plan_ops_max - ops_per_chunk_set * size.chunk_sets;
  const u64 most_pieces = left * graph.batch.pieces() / (ops_per_pass * size.passes);
  if (graph.batch.pieces() > 1 && most_pieces > 0) {
    const Setting pieces{"memory.piece_tokens",
                         fmt::format("{}", tokens_of_pieces(graph.batch, most_pieces))};
    return takes_too_long(size.ops(), fmt::format("set {}, or larger", setting_text(pieces)),
                          Change{{pieces}, ""});
  }
  const u64 per_micro_batch = ops_per_pass * graph.batch.pieces() * passes_of_piece(graph);
  const u64 most = std::bit_floor(std::max<u64>(left / per_micro_batch / options.devices, 1));
  const u64 sweeps = std::max<u64>(options.sweeps, 1);  // must divide the micro-batches
  const u64 steps = std::max(most / sweeps, u64{1}) * sweeps;
  const Setting accumulation{"train.gradient_accumulation_steps", fmt::format("{}", steps)};
  return takes_too_long(
      size.ops(),
      fmt::format("set {}, and a larger train.per_device_train_batch_size for as many tokens",
                  setting_text(accumulation)),
      Change{{accumulation}, "and a larger train.per_device_train_batch_size for as many tokens"});
}

}  // namespace tidepool
