#include "executor/cpu/step_numbers.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "executor/shared/step_arrays.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

constexpr u64 cells_of_granule = norm_granule_elements / norm_cell_elements;

}  // namespace

StepNumbers::StepNumbers(const Plan& plan, const ModelGraph& graph, StepSource& source)
    : precision_(plan.precision),
      micro_batches_(plan.micro_batches),
      devices_(plan.devices),
      layout_(plan, graph),
      source_(source) {
  const u64 experts = experts_of_layers(graph);
  for (Step& step : steps_) {
    step.losses.resize(plan.micro_batches);
    if (experts == 0) continue;
    step.router_losses.resize(plan.micro_batches + 1);
    step.expert_tokens.assign(plan.devices, std::vector<i64>(experts));
  }
  partials_.resize(layout_.partials());
  cells_.resize(layout_.cells());
}

double* StepNumbers::begin_loss(u64 step, u32 micro_batch) {
  double& loss = steps_[step % steps_kept].losses[micro_batch];
  loss = 0;
  return &loss;
}

// A device's micro-batches come in ascending order, and its first one clears its counts.
StepNumbers::RoutingPlace StepNumbers::begin_routing(u64 step, u32 micro_batch) {
  Step& at = steps_[step % steps_kept];
  if (at.router_losses.empty()) return {};
  std::vector<i64>& tokens = at.expert_tokens[micro_batch % devices_];
  if (micro_batch < devices_) std::ranges::fill(tokens, 0);
  at.router_losses[micro_batch] = {};
  return {&at.router_losses[micro_batch], tokens.data()};
}

// Computes cells on this thread: they cover less than two granules, and only where devices' parts meet.
void StepNumbers::add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool& pool) {
  const u64 bytes = element_bytes(Kind::grad, precision_);
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
  for (u64 cell = 0; cell < cells_of_granule; ++cell) sum += cells_[first + cell];
  return sum;
}

void StepNumbers::finish(u64 number) {
  Step& step = steps_[number % steps_kept];
  double loss = 0, squares = 0;
  for (const double part : step.losses) loss += part;                // in order of micro-batch
  for (u64 i = 0; i < partials_.size(); ++i) squares += partial(i);  // in order of window
  step.step = number;
  const StepSettings settings = source_.settings(number);
  step.result = step_result({.loss = loss,
                             .grad_norm = std::sqrt(squares),
                             .target_tokens = settings.target_tokens,
                             .loss_scale = loss_scale_,
                             .loss_scaling = settings.loss_scaling});
  loss_scale_ = step.result.next_loss_scale;
  if (!step.router_losses.empty()) finish_routing(step);
}

void StepNumbers::finish_routing(Step& step) const {
  RouterLosses& mean = step.router_losses.back() = {};
  for (u32 m = 0; m < micro_batches_; ++m) {
    mean.balance += step.router_losses[m].balance / micro_batches_;
    mean.z += step.router_losses[m].z / micro_batches_;
    mean.entropy += step.router_losses[m].entropy / micro_batches_;
  }
  std::vector<i64>& sum = step.expert_tokens.front();
  for (u32 device = 1; device < devices_; ++device)
    for (u64 i = 0; i < sum.size(); ++i) sum[i] += step.expert_tokens[device][i];
}

RoutingResult StepNumbers::routing(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  if (step.router_losses.empty()) return {};
  return {step.router_losses.back(), step.expert_tokens.front()};
}

StepResult StepNumbers::result(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  return step.result;
}

}  // namespace tidepool
