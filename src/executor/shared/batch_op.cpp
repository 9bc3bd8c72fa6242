#include "executor/shared/batch_op.h"

#include <algorithm>
#include <cstring>

#include "executor/shared/operand_cursor.h"
#include "executor/shared/row_lookup.h"
#include "tidepool/ignored_target.h"

namespace tidepool {
namespace {

constexpr u64 evaluations_expected = 256;  // grows if there are more

}  // namespace

EvaluationSums::EvaluationSums() { parts_.reserve(evaluations_expected); }

EvalResult& EvaluationSums::at(u64 index) {
  if (index >= parts_.size()) parts_.resize(index + 1);
  return parts_[index];
}

Sums EvaluationSums::sums(u64 index) {
  const std::scoped_lock lock(mutex_);
  return at(index).sums;
}

void EvaluationSums::set_sums(u64 index, const Sums& sums) {
  const std::scoped_lock lock(mutex_);
  at(index).sums = sums;
}

void EvaluationSums::add_targets(u64 index, u64 targets) {
  const std::scoped_lock lock(mutex_);
  at(index).targets = targets;
}

// A micro-batch is one node's: the others have zeros for it, and adding zeros changes no bit.
Result<void> EvaluationSums::add_other_nodes(Transport& transport) {
  const std::string mine(reinterpret_cast<const char*>(parts_.data()), parts_.size() * sizeof(EvalResult));
  TRY_ASSIGN(const std::vector<std::string> all, transport.exchange(mine));
  for (u32 node = 0; node < all.size(); ++node) {
    if (node == transport.node()) continue;
    std::vector<EvalResult> theirs(all[node].size() / sizeof(EvalResult));
    std::memcpy(theirs.data(), all[node].data(), theirs.size() * sizeof(EvalResult));
    for (u64 i = 0; i < theirs.size(); ++i) at(i).add(theirs[i]);
  }
  return {};
}

Result<EvalResult> EvaluationSums::take(Transport* transport) {
  const std::scoped_lock lock(mutex_);
  if (transport != nullptr) TRY(add_other_nodes(*transport));
  EvalResult sum;
  for (const EvalResult& part : parts_) sum.add(part);
  parts_.clear();
  return sum;
}

u64 evaluation_index(const Plan& plan, const Issue& issue) {
  return issue.step * (plan.micro_batches / plan.sweeps) + issue.get().micro_batch;
}

Result<void> run_load_batch(const Plan& plan, const ModelGraph& graph, const TierMemory& memory,
                            StepSource& source, EvaluationSums& evaluation, RowLookup* lookup,
                            const Issue& issue) {
  OperandCursor operands(plan, memory, issue);
  const std::span<std::byte> batch = operands.take(Kind::batch);
  const u64 rows = graph.batch.rows();
  const BatchList list = graph.batch.arrays();
  CHECK(batch.size() >= list.bytes(rows), batch.size(), rows);
  const auto array = [&]<class T>(BatchArray which, T) -> std::span<T> {
    if (!list.has(which)) return {};
    return {reinterpret_cast<T*>(batch.data() + list.offset(which, rows)), rows * list.elements(which)};
  };
  const auto ids = [&](BatchArray which) { return array(which, i32{}); };
  const BatchArrays arrays{.tokens = ids(BatchArray::tokens),
                           .targets = ids(BatchArray::targets),
                           .starts = ids(BatchArray::starts),
                           .holes = array(BatchArray::holes, KeyHole{}),
                           .sequences = ids(BatchArray::sequences),
                           .values = array(BatchArray::values, float{}),
                           .references = array(BatchArray::references, float{}),
                           .old_logps = array(BatchArray::old_logps, float{}),
                           .distributions = array(BatchArray::distributions, float{})};
  std::ranges::fill(arrays.starts, 0);
  std::ranges::fill(arrays.holes, KeyHole{});
  std::ranges::fill(arrays.sequences, 0);
  std::ranges::fill(arrays.values, 0);
  std::ranges::fill(arrays.references, 0);
  std::ranges::fill(arrays.old_logps, 0);
  std::ranges::fill(arrays.distributions, 0);
  const bool evaluates = issue.segment->kind == SegmentKind::evaluation;
  TRY(source.load_batch({.step = issue.step, .micro_batch = issue.get().micro_batch, .evaluation = evaluates},
                        arrays));
  const std::span<i32> table_tokens = ids(BatchArray::table_tokens);
  if (!table_tokens.empty()) std::ranges::copy(arrays.tokens, table_tokens.begin());
  if (lookup != nullptr) lookup->number(plan.lookup.block == 0 ? arrays.tokens : table_tokens);
  if (evaluates)
    evaluation.add_targets(evaluation_index(plan, issue),
                           arrays.counted_targets(graph.objective.counts_tokens()));
  return {};
}

}  // namespace tidepool
