// Adapters of a group are grouped products of narrow matrices, one expert after the other in their window.
#include "model/mlps/experts/group_adapters.h"

#include "base/check.h"
#include "model/block_calls.h"
#include "model/mlps/experts/expert_windows.h"

namespace tidepool {
namespace {

constexpr u32 adapters_window = 1;  // of the block, if it has adapters

u32 rows_max_of(const BlockContext& c, ExpertRange range) {
  return static_cast<u32>(routed_rows_max(rows_of(c), c.graph.config.experts.chosen, range.count));
}

// Packed rows have the stride 0, which all backends know.
u32 stride_of(const ExpertAdapter& adapter, u32 columns) { return columns == adapter.out ? 0 : columns; }

u32 expected_rows_of(const BlockContext& c, ExpertRange range) {
  const Experts& experts = c.graph.config.experts;
  return static_cast<u32>(routed_rows_expected(rows_of(c), experts.chosen, range.count, experts.count));
}

}  // namespace

GroupAdapters::GroupAdapters(const BlockContext& c, const SortedRows& sorted,
                             std::span<const std::byte* const> windows, const GroupAdapterScratch& scratch)
    : c_(c), range_(experts_of_group(c.graph, block_of(c).group)), sorted_(sorted), scratch_(scratch) {
  if (windows.size() <= adapters_window) return;
  adapters_ = &c.graph.adapters[block_of(c).layer].experts;
  window_ = &window_of(c, adapters_window);
  data_ = windows[adapters_window];
  const u32 per_expert = 2 * adapters_->count;
  CHECK(window_->tensors.size() == u64{range_.count} * per_expert, c.block, window_->tensors.size());
  stride_ = range_.count > 1 ? window_->tensor(per_expert).window_offset - window_->tensor(0).window_offset
                             : window_->elements;
}

// Calls fn(number, adapter) for the adapters of a product. In the window, A of adapter `number` of the first
// expert is tensor 2 number, and B the next.
template <class Fn>
void GroupAdapters::for_adapters(ExpertProduct product, Fn fn) const {
  if (adapters_ == nullptr) return;
  for (u32 i = 0; i < adapters_->count; ++i)
    if (adapters_->of[i].down == (product == ExpertProduct::down)) fn(i, adapters_->of[i]);
}

Param GroupAdapters::param(u32 tensor) const {
  return Param{data_, c_.graph.precision}.at(window_->tensor(tensor).window_offset);
}

GroupedMatmul GroupAdapters::product(const ExpertAdapter& adapter) const {
  return {.offsets = sorted_.offsets,
          .experts = range_.count,
          .rows_max = rows_max_of(c_, range_),
          .n = adapter.r,
          .expected_rows = expected_rows_of(c_, range_),
          .expert_stride = stride_};
}

// low = scale x A^T
void GroupAdapters::make_low(u32 number, ConstValues x) const {
  const ExpertAdapter& adapter = adapters_->of[number];
  GroupedMatmul p = product(adapter);
  p.k = adapter.in;
  p.x = x;
  p.weight = param(2 * number);
  p.transposed = true;
  p.scale = static_cast<float>(adapter.scale);
  p.y = scratch_.low;
  c_.kernels.grouped_matmul(p);
}

// low_grad = scale dy B
void GroupAdapters::make_low_grad(u32 number, ConstValues dy, u32 columns) const {
  const ExpertAdapter& adapter = adapters_->of[number];
  GroupedMatmul p = product(adapter);
  p.k = adapter.out;
  p.x = dy.at(adapter.column);
  p.x_stride = stride_of(adapter, columns);
  p.weight = param(2 * number + 1);
  p.scale = static_cast<float>(adapter.scale);
  p.y = scratch_.low_grad;
  c_.kernels.grouped_matmul(p);
}

void GroupAdapters::add_low_grad(u32 number, Values dx) const {
  const ExpertAdapter& adapter = adapters_->of[number];
  GroupedMatmul p = product(adapter);
  p.n = adapter.in;
  p.k = adapter.r;
  p.x = scratch_.low_grad;
  p.weight = param(2 * number);
  p.accumulate = true;
  p.y = dx;
  c_.kernels.grouped_matmul(p);
}

void GroupAdapters::adapter_gradients(u32 number, ConstValues x, ConstValues dy, u32 columns,
                                      const AdapterGradients& g) const {
  const ExpertAdapter& adapter = adapters_->of[number];
  make_low(number, x);
  GroupedWeightGradient gradient = {.offsets = sorted_.offsets,
                                    .experts = range_.count,
                                    .rows_max = rows_max_of(c_, range_),
                                    .n = adapter.out,
                                    .k = adapter.r,
                                    .expected_rows = expected_rows_of(c_, range_),
                                    .x = scratch_.low,
                                    .dy = dy.at(adapter.column),
                                    .dy_stride = stride_of(adapter, columns),
                                    .dw = g.window + window_->tensor(2 * number + 1).window_offset,
                                    .expert_stride = stride_,
                                    .accumulate = g.accumulate,
                                    .transposed = true};
  c_.kernels.grouped_weight_gradient(gradient);
  gradient.n = adapter.r, gradient.k = adapter.in;
  gradient.x = x, gradient.dy = scratch_.low_grad, gradient.dy_stride = 0;
  gradient.dw = g.window + window_->tensor(2 * number).window_offset;
  c_.kernels.grouped_weight_gradient(gradient);
}

void GroupAdapters::add_to(ExpertProduct of, ConstValues x, Values y, u32 columns) const {
  for_adapters(of, [&](u32 number, const ExpertAdapter& adapter) {
    make_low(number, x);
    GroupedMatmul p = product(adapter);
    p.n = adapter.out;
    p.k = adapter.r;
    p.x = scratch_.low;
    p.weight = param(2 * number + 1);
    p.transposed = true;
    p.accumulate = true;
    p.y = y.at(adapter.column);
    p.y_stride = stride_of(adapter, columns);
    c_.kernels.grouped_matmul(p);
  });
}

void GroupAdapters::input_gradient(ExpertProduct of, ConstValues dy, Values dx, u32 columns) const {
  u32 count = 0;
  for_adapters(of, [&](u32 number, const ExpertAdapter&) {
    CHECK(++count == 1, c_.block);
    make_low_grad(number, dy, columns);
    add_low_grad(number, dx);
  });
}

void GroupAdapters::weight_gradients(ExpertProduct of, ConstValues x, ConstValues dy, u32 columns,
                                     const AdapterGradients& g) const {
  for_adapters(of, [&](u32 number, const ExpertAdapter&) { adapter_gradients(number, x, dy, columns, g); });
}

void GroupAdapters::gradients(ExpertProduct of, ConstValues x, ConstValues dy, Values dx, u32 columns,
                              const AdapterGradients& g) const {
  for_adapters(of, [&](u32 number, const ExpertAdapter&) {
    make_low_grad(number, dy, columns);
    adapter_gradients(number, x, dy, columns, g);
    add_low_grad(number, dx);
  });
}

}  // namespace tidepool
