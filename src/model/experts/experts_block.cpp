// A group of experts. Tokens are sorted by expert; each expert's rows pass gate and up, the gated unit and
// down; the outputs are added per token, in ascending order of experts. Sums continue from group to group in
// fp32, forward upwards and backward downwards, so the size of groups changes no bit.
#include "model/experts/experts_block.h"

#include "base/check.h"
#include "model/block_calls.h"
#include "model/experts/expert_layouts.h"
#include "model/experts/expert_windows.h"

namespace tidepool {
namespace {

// Group holds what forward and backward of one group share.
struct Group {
  Group(const BlockContext& context, const ExpertStreams& streams, const SortedRows& rows)
      : c(context),
        config(context.graph.config),
        range(experts_of_group(context.graph, block_of(context).group)),
        places(expert_places(config)),
        routes(context.graph, streams.routes),
        sorted(rows) {}

  const BlockContext& c;
  const ModelConfig& config;
  const ExpertRange range;
  const ExpertPlaces places;
  const RoutesLayout routes;
  const SortedRows& sorted;

  u32 tokens() const { return rows_of(c); }
  u32 chosen() const { return config.experts.chosen; }
  u32 rows_max() const { return static_cast<u32>(routed_rows_max(tokens(), chosen(), range.count)); }
  u32 expected_rows() const {
    return static_cast<u32>(routed_rows_expected(tokens(), chosen(), range.count, config.experts.count));
  }
  const i32* row_count() const { return sorted.offsets + range.count; }

  void sort() const {
    c.kernels.sort_by_expert({.rows = tokens(),
                              .chosen = chosen(),
                              .experts = routes.experts,
                              .range = range,
                              .offsets = sorted.offsets,
                              .slots = sorted.slots,
                              .places = sorted.places});
  }

  void gather(ConstValues x, Values y) const {
    c.kernels.gather_rows({.rows_max = rows_max(),
                           .columns = config.width,
                           .chosen = chosen(),
                           .expected_rows = expected_rows(),
                           .row_count = row_count(),
                           .slots = sorted.slots,
                           .x = x,
                           .y = y});
  }

  // y = x w^T with weights [n, k], or y = x w with weights [k, n].
  void product(Param weight, u32 n, u32 k, bool transposed, ConstValues x, Values y) const {
    c.kernels.grouped_matmul({.offsets = sorted.offsets,
                              .experts = range.count,
                              .rows_max = rows_max(),
                              .n = n,
                              .k = k,
                              .expected_rows = expected_rows(),
                              .x = x,
                              .weight = weight,
                              .expert_stride = places.stride,
                              .transposed = transposed,
                              .y = y});
  }

  GluGate gate() const {
    return traits(config.family).experts->activation == ExpertActivation::clamped_swiglu ? GluGate::clamped
                                                                                         : GluGate::silu;
  }
};

Param weights_at(const BlockContext& c, std::span<const std::byte* const> windows, u64 offset) {
  return Param{windows[0], c.graph.precision}.at(offset);
}

bool begins(const BlockContext& c, const std::vector<StreamUse>& uses, Kind kind) {
  for (const StreamUse& use : uses)
    if (c.graph.streams[use.stream].kind == kind) return use.access == Access::write;
  return true;
}

void combine(const Group& group, const BlockForward& f, ConstValues out) {
  const bool first = begins(group.c, block_of(group.c).forward_streams, Kind::expert_sum);
  const bool last = bool(f.output);
  group.c.kernels.combine_experts({.rows = group.tokens(),
                                   .chosen = group.chosen(),
                                   .columns = group.config.width,
                                   .expected_rows = group.expected_rows(),
                                   .places = group.sorted.places,
                                   .experts = group.routes.experts,
                                   .weights = group.routes.weights,
                                   .x = out,
                                   .sum_in = first ? nullptr : f.experts.sum,
                                   .sum_out = last ? nullptr : f.experts.sum,
                                   .residual = last ? ConstValues(f.experts.middle) : ConstValues{},
                                   .y = f.output});
}

void combine_gradients(const Group& group, const BlockBackward& b, ConstValues dx) {
  const bool first = begins(group.c, block_of(group.c).backward_streams, Kind::normed_grad);
  group.c.kernels.combine_experts({.rows = group.tokens(),
                                   .chosen = group.chosen(),
                                   .columns = group.config.width,
                                   .expected_rows = group.expected_rows(),
                                   .places = group.sorted.places,
                                   .experts = group.routes.experts,
                                   .descending = true,
                                   .x = dx,
                                   .sum_in = first ? nullptr : b.experts.normed_grad,
                                   .sum_out = b.experts.normed_grad});
}

void weight_gradients(const Group& group, const BlockBackward& b, u64 offset, ConstValues x, u32 k,
                      ConstValues dy, u32 n) {
  if (b.grad_accum[0] == nullptr) return;
  group.c.kernels.grouped_weight_gradient({.offsets = group.sorted.offsets,
                                           .experts = group.range.count,
                                           .rows_max = group.rows_max(),
                                           .n = n,
                                           .k = k,
                                           .expected_rows = group.expected_rows(),
                                           .x = x,
                                           .dy = dy,
                                           .dw = b.grad_accum[0] + offset,
                                           .expert_stride = group.places.stride,
                                           .accumulate = b.accumulate,
                                           .transposed = true});
}

}  // namespace

void measure_experts(Block& block, const ModelGraph& g) {
  const ExpertRange range = experts_of_group(g, block.group);
  block.kept = ExpertsInside(g, range, nullptr).bytes;
  block.forward_workspace = ExpertsForwardWorkspace(g, range, nullptr).bytes;
  block.backward_workspace = ExpertsBackwardWorkspace(g, range, nullptr).bytes;
}

void experts_forward(const BlockContext& c, const BlockForward& f) {
  const ExpertRange range = experts_of_group(c.graph, block_of(c).group);
  const ExpertsForwardWorkspace workspace(c.graph, range, f.workspace);
  const ExpertsInside kept(c.graph, range, f.kept);
  CHECK(workspace.bytes == block_of(c).forward_workspace && kept.bytes == block_of(c).kept, c.block);
  const Group group(c, f.experts, workspace.sorted);
  const u32 h = group.config.width, inner = group.config.expert_inner();
  const Values gate_up = f.kept != nullptr ? kept.gate_up : workspace.gate_up;
  group.sort();
  group.gather(f.experts.normed, workspace.rows);
  group.product(weights_at(c, f.windows, group.places.gate_up), 2 * inner, h, true, workspace.rows, gate_up);
  c.kernels.glu({.rows = group.rows_max(),
                 .columns = inner,
                 .expected_rows = group.expected_rows(),
                 .gate = group.gate(),
                 .row_count = group.row_count(),
                 .gate_up = gate_up,
                 .y = workspace.inner});
  group.product(weights_at(c, f.windows, group.places.down), h, inner, true, workspace.inner, workspace.rows);
  combine(group, f, workspace.rows);
}

void experts_backward(const BlockContext& c, const BlockBackward& b) {
  const ExpertRange range = experts_of_group(c.graph, block_of(c).group);
  const ExpertsBackwardWorkspace workspace(c.graph, range, b.workspace);
  CHECK(workspace.bytes <= block_of(c).backward_workspace, workspace.bytes.value, c.block);
  const Group group(c, b.experts, workspace.sorted);
  const u32 h = group.config.width, inner = group.config.expert_inner();
  const Param gate_up_weights = weights_at(c, b.windows, group.places.gate_up);
  ConstValues gate_up = workspace.gate_up;
  group.sort();
  group.gather(b.experts.normed, workspace.rows);
  if (b.kept != nullptr)
    gate_up = ExpertsInside(c.graph, range, const_cast<std::byte*>(b.kept)).gate_up;
  else
    group.product(gate_up_weights, 2 * inner, h, true, workspace.rows, workspace.gate_up);
  group.gather(b.grad, workspace.dout);
  group.product(weights_at(c, b.windows, group.places.down), inner, h, false, workspace.dout,
                workspace.inner);
  c.kernels.glu_backward({.rows = group.rows_max(),
                          .columns = inner,
                          .expected_rows = group.expected_rows(),
                          .gate = group.gate(),
                          .row_count = group.row_count(),
                          .gate_up = gate_up,
                          .dy = workspace.inner,
                          .dgate_up = workspace.dgate_up,
                          .value = workspace.inner,
                          .slots = workspace.sorted.slots,
                          .weights = group.routes.weights,
                          .dweights = b.experts.routes_grad});
  weight_gradients(group, b, group.places.down, workspace.inner, inner, workspace.dout, h);
  weight_gradients(group, b, group.places.gate_up, workspace.rows, h, workspace.dgate_up, 2 * inner);
  group.product(gate_up_weights, h, 2 * inner, false, workspace.dgate_up, workspace.dout);
  combine_gradients(group, b, workspace.dout);
}

}  // namespace tidepool
