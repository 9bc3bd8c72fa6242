#include "executor/shared/step_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
StepNumbers::StepNumbers(const Plan& plan, const ModelGraph& graph, StepSource& source)
    : precision_(plan.precision),
      plan_(plan),
      micro_batches_(plan.micro_batches),
      replicas_(plan.replicas()),
      sums_(graph.objective.sums()),
      layout_(plan, graph),
      source_(source) {
  const u64 experts = experts_of_layers(graph);
  for (Step& step : steps_) {
    step.sums.resize(plan.micro_batches);
    step.votes.resize(plan.nodes);
    if (experts == 0) continue;
    step.router_losses.resize(plan.micro_batches + 1);
    step.expert_tokens.assign(plan.replicas() + plan.nodes - 1, std::vector<i64>(experts));
  }
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (plan.chunks[id].kind == Kind::param && graph.windows[plan.chunks[id].window].trainable)
      trained_cuts_.push_back(id);
  partials_.resize(layout_.partials());
  cells_.resize(layout_.cells());
}

Sums* StepNumbers::begin_sums(u64 step, u32 micro_batch) {
  Sums& sums = steps_[step % steps_kept].sums[micro_batch];
  sums = {};
  return &sums;
}

// A replica's micro-batches come in ascending order, and its first one clears its counts.
RoutingPlace StepNumbers::begin_routing(u64 step, u32 micro_batch) {
  Step& at = steps_[step % steps_kept];
  if (at.router_losses.empty()) return {};
  std::vector<i64>& tokens = at.expert_tokens[micro_batch % replicas_];
  if (micro_batch < replicas_ * plan_.nodes) std::ranges::fill(tokens, 0);
  at.router_losses[micro_batch] = {};
  return {&at.router_losses[micro_batch], tokens.data()};
}

// Computes cells on this thread: they cover less than two granules, and only where devices' parts meet.
void StepNumbers::add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool& pool) {
  const u64 bytes = value_bytes(precision_);
  const NormLayout::Runs runs = layout_.runs_of(window, begin, elements);
  for (const NormLayout::Run& run : std::span(runs.run).first(runs.count)) {
    const std::byte* from = grad + (run.begin - begin) * bytes;
    if (run.cells) {
      norm_cells(from, precision_, run.elements,
                 std::span(cells_).subspan(run.first, div_up(run.elements, norm_cell_elements)));
    } else {
      norm_partials(from, precision_, run.elements,
                    std::span(partials_).subspan(run.first, div_up(run.elements, norm_granule_elements)),
                    pool);
    }
  }
}

double StepNumbers::partial(u64 index) const {
  const u32 first = layout_.shared()[index];
  if (first == none) return partials_[index];
  double sum = 0;
  for (u64 cell = 0; cell < norm_granule_elements / norm_cell_elements; ++cell) sum += cells_[first + cell];
  return sum;
}

// Micro-batches come in ascending order, then the partial sums of the node's cuts in the order of windows,
// then the tokens of each expert.
template <class Self, class Number, class Count>
void StepNumbers::for_packed(Self& self, u64 number, u32 node, Number&& value, Count&& count) {
  auto& step = self.steps_[number % steps_kept];
  count(step.votes[node]);
  for (u32 m = 0; m < self.micro_batches_; ++m) {
    if (self.plan_.node_of(m) != node) continue;
    for (u32 sum = 0; sum < self.sums_; ++sum) value(step.sums[m].begin()[sum]);
    if (step.router_losses.empty()) continue;
    auto& losses = step.router_losses[m];
    value(losses.balance), value(losses.z), value(losses.entropy);
  }
  for (const u32 cut : self.trained_cuts_) {
    const Chunk& chunk = self.plan_.chunks[cut];
    if (chunk.owner != node) continue;
    const NormLayout::Runs runs = self.layout_.runs_of(chunk.window, chunk.element_begin, chunk.elements);
    for (const NormLayout::Run& run : std::span(runs.run).first(runs.count)) {
      CHECK(!run.cells, chunk.window, chunk.cut);
      for (u64 i = 0; i < div_up(run.elements, norm_granule_elements); ++i)
        value(self.partials_[run.first + i]);
    }
  }
  if (step.expert_tokens.empty()) return;
  if (node == self.plan_.node) {
    for (u64 e = 0; e < step.expert_tokens.front().size(); ++e) {
      i64 sum = 0;
      for (u32 r = 0; r < self.replicas_; ++r) sum += step.expert_tokens[r][e];
      count(sum);
    }
  } else {
    const u32 place = self.replicas_ + (node < self.plan_.node ? node : node - 1);
    for (auto& tokens : step.expert_tokens[place]) count(tokens);
  }
}

void StepNumbers::pack(u64 step, u64 vote, std::span<std::byte> packed) {
  steps_[step % steps_kept].votes[plan_.node] = static_cast<i64>(vote);
  std::byte* to = packed.data();
  const auto put = [&](auto value) {
    static_assert(sizeof value == sizeof(double));
    CHECK(to + sizeof value <= packed.data() + packed.size(), packed.size());
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  for_packed(
      *this, step, plan_.node, [&](double value) { put(value); }, [&](i64 value) { put(value); });
}

void StepNumbers::unpack(u64 step, u32 node, std::span<const std::byte> packed) {
  const std::byte* from = packed.data();
  const auto take = [&](auto& value) {
    double raw = 0;
    CHECK(from + sizeof raw <= packed.data() + packed.size(), packed.size());
    if constexpr (sizeof value == sizeof raw) {
      std::memcpy(&value, from, sizeof value);
    } else {
      std::memcpy(&raw, from, sizeof raw);
      value = static_cast<std::remove_reference_t<decltype(value)>>(raw);
    }
    from += sizeof raw;
  };
  for_packed(*this, step, node, take, take);
}

void StepNumbers::finish(const Issue& norm, const TierMemory& memory) {
  for (const Operand& o : norm.segment->operands_of(norm.get()))
    if (const u32 instance = plan_.chunk(o.first).instance; instance >= plan_.devices)
      unpack(norm.step, instance - plan_.devices, memory.at(o.frame));
  const u64 number = norm.step;
  Step& step = steps_[number % steps_kept];
  Sums sums;
  double squares = 0;
  for (const Sums& part : step.sums) sums.add(part);                 // in order of micro-batch
  for (u64 i = 0; i < partials_.size(); ++i) squares += partial(i);  // in order of window
  step.step = number;
  const StepSettings settings = source_.settings(number);
  step.result = step_result({.sums = sums,
                             .grad_norm = std::sqrt(squares),
                             .target_tokens = settings.target_tokens,
                             .loss_scale = loss_scale_,
                             .loss_scaling = settings.loss_scaling});
  loss_scale_ = step.result.next_loss_scale;
  if (!step.router_losses.empty()) finish_routing(step);
}

void StepNumbers::finish_routing(Step& step) const {
  step.router_losses.back() =
      mean_router_losses(source_, step.step, micro_batches_,
                         [&](u32 m) -> const RouterLosses& { return step.router_losses[m]; });
  std::vector<i64>& sum = step.expert_tokens.front();
  for (u64 device = 1; device < step.expert_tokens.size(); ++device)
    for (u64 i = 0; i < sum.size(); ++i) sum[i] += step.expert_tokens[device][i];
}

RoutingResult StepNumbers::routing(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  if (step.router_losses.empty()) return {};
  return {step.router_losses.back(), step.expert_tokens.front()};
}

u64 StepNumbers::votes(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  u64 all = 0;
  for (const i64 vote : step.votes) all |= static_cast<u64>(vote);
  return all;
}

LossScale StepNumbers::loss_scale_of(u64 number) const {
  const Step& before = steps_[(number - 1) % steps_kept];
  return before.step > 0 && before.step + 1 == number ? before.result.next_loss_scale : first_scale_;
}

StepResult StepNumbers::result(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  return step.result;
}

}  // namespace tidepool
