#include "executor/cpu/step_numbers.h"

#include <algorithm>
#include <cmath>

#include "kernels/gradient.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

constexpr u64 granule = norm_granule_elements, cells_of_granule = norm_granule_elements / norm_cell_elements;
constexpr u64 evaluations_expected = 256;  // more are taken when they come

// The part of the window that a gradient op finishes, from the first of its operands.
std::pair<u64, u64> elements_of(const Plan& plan, const Operand& o) {
  u64 elements = 0;
  for (u32 c = 0; c < o.count; ++c) elements += plan.chunks[index(o.first) + c].elements;
  return {plan.chunk(o.first).element_begin, elements};
}

}  // namespace

StepNumbers::StepNumbers(const Plan& plan, const ModelGraph& graph, StepSource& source)
    : plan_(plan), graph_(graph), source_(source) {
  for (Step& step : steps_) step.losses.resize(plan.micro_batches);
  u64 next = 0;
  for (const Window& window : graph.windows) {
    first_partial_.push_back(next);
    next += div_up(window.elements, granule);
  }
  partials_.resize(next);
  evaluation_.reserve(evaluations_expected);
  index_shared_granules();
}

void StepNumbers::index_shared_granules() {
  shared_.assign(partials_.size(), none);
  const Segment& body = plan_.segment(SegmentKind::body);
  for (const Op& op : body.ops) {
    if (op.kind != OpKind::gradient) continue;
    const auto [begin, elements] = elements_of(plan_, body.operands_of(op)[0]);
    const Part part = part_of(op.window, begin, elements);
    for (u64 g = part.begin / granule; g * granule < part.end; ++g) {
      u32& shared = shared_[first_partial_[op.window] + g];
      if ((g >= part.whole_begin && g < part.whole_end) || shared != none) continue;
      shared = static_cast<u32>(cells_.size());
      cells_.resize(cells_.size() + cells_of_granule, 0.0);
    }
  }
}

StepNumbers::Part StepNumbers::part_of(u32 window, u64 begin, u64 elements) const {
  const u64 end = begin + elements, all = graph_.windows[window].elements;
  CHECK(begin % norm_cell_elements == 0 && end <= all, begin, end, all);
  const u64 first = div_up(begin, granule);
  return {begin, end, first, std::max(first, end == all ? div_up(end, granule) : end / granule)};
}

double* StepNumbers::begin_loss(u64 step, u32 micro_batch) {
  double& loss = steps_[step % steps_kept].losses[micro_batch];
  loss = 0;
  return &loss;
}

void StepNumbers::add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool& pool) {
  const Part part = part_of(window, begin, elements);
  const u64 bytes = element_bytes(Kind::grad, plan_.precision);
  const u64 whole_begin = std::min(part.whole_begin * granule, part.end);
  const u64 whole_end = std::max(whole_begin, std::min(part.whole_end * granule, part.end));
  add_cells(window, part.begin, whole_begin, grad);
  norm_partials(grad + (whole_begin - begin) * bytes, plan_.precision, whole_end - whole_begin,
                std::span(partials_).subspan(first_partial_[window] + part.whole_begin,
                                             div_up(whole_end - whole_begin, granule)),
                pool);
  add_cells(window, whole_end, part.end, grad + (whole_end - begin) * bytes);
}

// Fewer than two granules, and only where devices' parts meet: not worth handing out.
void StepNumbers::add_cells(u32 window, u64 begin, u64 end, const std::byte* grad) {
  const u64 bytes = element_bytes(Kind::grad, plan_.precision);
  while (begin < end) {
    const u64 g = begin / granule, stop = std::min(end, (g + 1) * granule);
    const u32 shared = shared_[first_partial_[window] + g];
    CHECK(shared != none, window, g);
    norm_cells(grad, plan_.precision, stop - begin,
               std::span(cells_).subspan(shared + (begin - g * granule) / norm_cell_elements,
                                         div_up(stop - begin, norm_cell_elements)));
    grad += (stop - begin) * bytes;
    begin = stop;
  }
}

double StepNumbers::partial(u64 index) const {
  if (shared_[index] == none) return partials_[index];
  double sum = 0;
  for (u64 cell = 0; cell < cells_of_granule; ++cell) sum += cells_[shared_[index] + cell];
  return sum;
}

void StepNumbers::finish(u64 number) {
  Step& step = steps_[number % steps_kept];
  double loss = 0, squares = 0;
  for (const double part : step.losses) loss += part;                                 // in order of micro-batch
  for (u64 i = 0; i < partials_.size(); ++i) squares += partial(i);  // in order of window
  const u64 tokens = source_.settings(number).target_tokens;
  step.step = number;
  step.result = {.loss = loss / static_cast<double>(std::max<u64>(tokens, 1)),
                 .grad_norm = std::sqrt(squares),
                 .target_tokens = tokens};
  step.result.skipped = !std::isfinite(step.result.grad_norm) || !std::isfinite(loss);
}

StepResult StepNumbers::result(u64 number) const {
  const Step& step = steps_[number % steps_kept];
  CHECK(step.step == number, step.step, number);
  return step.result;
}

void StepNumbers::add_evaluation(u64 index, double loss_sum, u64 target_tokens) {
  const std::scoped_lock lock(evaluation_mutex_);
  if (index >= evaluation_.size()) evaluation_.resize(index + 1);
  evaluation_[index] = {loss_sum, target_tokens};
}

EvalResult StepNumbers::take_evaluation() {
  EvalResult sum;
  for (const EvalResult& part : evaluation_) {
    sum.loss_sum += part.loss_sum;
    sum.target_tokens += part.target_tokens;
  }
  evaluation_.clear();
  return sum;
}

}  // namespace tidepool
