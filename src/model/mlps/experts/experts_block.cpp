// A group of experts. Tokens are sorted by expert; each expert's rows pass gate and up, the gated unit and
// down; the outputs are added per token, in ascending order of experts. Sums continue from group to group in
// fp32, forward upwards and backward downwards, so the size of groups changes no bit.
#include "model/mlps/experts/experts_block.h"

#include "base/check.h"
#include "model/block_calls.h"
#include "model/mlps/experts/expert_layouts.h"
#include "model/mlps/experts/expert_windows.h"
#include "model/mlps/experts/group_adapters.h"
#include "model/row_tiles.h"

namespace tidepool {
namespace {

// Group holds what forward and backward of one group share.
struct Group {
  Group(const BlockContext& context, const ExpertStreams& streams, const SortedRows& rows)
      : c(context),
        config(context.graph.config),
        range(experts_of_group(context.graph, block_of(context).group)),
        places(expert_places(window_of(context, 0), range.count)),
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

  // Matrices are [in, out], and gate and up alternate in the columns of one; or [out, in].
  bool in_out() const { return traits(config.family).experts->tensors.joined_in_out; }

  GroupedMatmul product(Param weight, u32 n, u32 k, ConstValues x, Values y) const {
    return {.offsets = sorted.offsets,
            .experts = range.count,
            .rows_max = rows_max(),
            .n = n,
            .k = k,
            .expected_rows = expected_rows(),
            .x = x,
            .weight = weight,
            .expert_stride = places.stride,
            .y = y};
  }

  bool is_branch() const { return config.has_branches(block_of(c).layer); }
  // RETURNS: the experts' of a layer's two branches; null if there are none.
  Values of_experts(Values branches) const {
    return branches ? branches.at(u64{tokens()} * config.width) : Values{};
  }

  GluGate gate() const { return expert_gate(config); }
  GluClamp clamp() const {
    return {.bound = static_cast<float>(config.experts.gate_limit),
            .slope = static_cast<float>(config.experts.gate_alpha)};
  }
};

// A linear layer of the experts: y [n] of x [k].
struct Linear {
  Param weight, bias;  // of the group's first expert; bias: or none
  u64 weight_place = 0, bias_place = 0;
  u32 n = 0, k = 0;
};
Linear linear_of(const Group& group, std::span<const std::byte* const> windows, u64 weight, u64 bias, u32 n,
                 u32 k) {
  const Param window = {windows[0], group.c.graph.precision};
  const bool biased = traits(group.config.family).experts->tensors.biases;
  return {.weight = window.at(weight),
          .bias = biased ? window.at(bias) : Param{},
          .weight_place = weight,
          .bias_place = bias,
          .n = n,
          .k = k};
}
Linear gate_up_of(const Group& group, std::span<const std::byte* const> windows) {
  return linear_of(group, windows, group.places.gate_up, group.places.gate_up_bias,
                   glu_inputs(group.gate()) * group.config.expert_inner(), group.config.width);
}
Linear down_of(const Group& group, std::span<const std::byte* const> windows) {
  return linear_of(group, windows, group.places.down, group.places.down_bias, group.config.width,
                   group.config.expert_inner());
}

// y = x w + b
void apply(const Group& group, const Linear& linear, ConstValues x, Values y) {
  GroupedMatmul product = group.product(linear.weight, linear.n, linear.k, x, y);
  product.transposed = !group.in_out();
  product.bias = linear.bias;
  group.c.kernels.grouped_matmul(product);
}

// dx = dy w^T
void input_gradient(const Group& group, const Linear& linear, ConstValues dy, Values dx) {
  GroupedMatmul product = group.product(linear.weight, linear.k, linear.n, dy, dx);
  product.transposed = group.in_out();
  group.c.kernels.grouped_matmul(product);
}

bool begins(const BlockContext& c, const std::vector<StreamUse>& uses, Kind kind) {
  for (const StreamUse& use : uses)
    if (c.graph.streams[use.stream].kind == kind) return use.access == Access::write;
  return true;
}

// If experts are a branch, the last group's sum is the second of the layer's branches; otherwise it is added
// to the residual stream.
void combine(const Group& group, const BlockForward& f, ConstValues out) {
  const bool first = begins(group.c, block_of(group.c).forward_streams, Kind::expert_sum);
  const bool branch = group.is_branch();
  const Values y = branch ? group.of_experts(f.experts.branches) : f.output;
  const bool last = bool(y);
  group.c.kernels.combine_experts(
      {.rows = group.tokens(),
       .chosen = group.chosen(),
       .columns = group.config.width,
       .expected_rows = group.expected_rows(),
       .places = group.sorted.places,
       .experts = group.routes.experts,
       .weights = group.routes.weights,
       .x = out,
       .sum_in = first ? nullptr : f.experts.sum,
       .sum_out = last ? nullptr : f.experts.sum,
       .residual = last && !branch ? ConstValues(f.experts.post_attention) : ConstValues{},
       .y = y});
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

// `bias_factors`: as in GroupedWeightGradient.
void weight_gradients(const Group& group, const BlockBackward& b, const Linear& linear, ConstValues x,
                      ConstValues dy, const float* bias_factors = nullptr) {
  if (b.grad_accum[0] == nullptr) return;
  const bool biased = bool(linear.bias);
  group.c.kernels.grouped_weight_gradient({.offsets = group.sorted.offsets,
                                           .experts = group.range.count,
                                           .rows_max = group.rows_max(),
                                           .n = linear.n,
                                           .k = linear.k,
                                           .expected_rows = group.expected_rows(),
                                           .x = x,
                                           .dy = dy,
                                           .dw = b.grad_accum[0] + linear.weight_place,
                                           .expert_stride = group.places.stride,
                                           .dbias = biased ? b.grad_accum[0] + linear.bias_place : nullptr,
                                           .bias_factors = biased ? bias_factors : nullptr,
                                           .slots = biased && bias_factors ? group.sorted.slots : nullptr,
                                           .accumulate = b.accumulate,
                                           .transposed = !group.in_out()});
}

// The routing weights multiply down's bias too.
void add_route_bias_gradient(const Group& group, const BlockBackward& b, const Linear& down,
                             ConstValues dout) {
  group.c.kernels.route_bias_gradient({.offsets = group.sorted.offsets,
                                       .range_count = group.range.count,
                                       .rows_max = group.rows_max(),
                                       .columns = group.config.width,
                                       .expected_rows = group.expected_rows(),
                                       .slots = group.sorted.slots,
                                       .dy = dout,
                                       .bias = down.bias,
                                       .expert_stride = group.places.stride,
                                       .dweights = b.experts.routes_grad});
}

}  // namespace

void measure_experts(Block& block, const ModelGraph& g) {
  const ExpertRange range = experts_of_group(g, block.group);
  block.kept = ExpertsInside(g, range, nullptr).bytes * g.batch.tiles_of_piece();
  block.forward_workspace = ExpertsForwardWorkspace(g, block.layer, range, nullptr).bytes;
  block.backward_workspace = ExpertsBackwardWorkspace(g, block.layer, range, nullptr).bytes;
}

namespace {

void forward_of_tile(const BlockContext& c, const BlockForward& f) {
  const ExpertRange range = experts_of_group(c.graph, block_of(c).group);
  const ExpertsForwardWorkspace workspace(c.graph, block_of(c).layer, range, f.workspace);
  const ExpertsInside kept(c.graph, range, f.kept);
  CHECK(workspace.bytes == forward_workspace_of(c), c.block);
  CHECK(kept.bytes * c.graph.batch.tiles_of_piece() == block_of(c).kept, c.block);
  const Group group(c, f.experts, workspace.sorted);
  const GroupAdapters adapters(c, workspace.sorted, f.windows, workspace.adapters);
  const Linear gate_up_linear = gate_up_of(group, f.windows), down = down_of(group, f.windows);
  const Values gate_up = f.kept != nullptr ? kept.gate_up : workspace.gate_up;
  group.sort();
  group.gather(f.experts.normed, workspace.rows);
  apply(group, gate_up_linear, workspace.rows, gate_up);
  adapters.add_to(ExpertProduct::gate_up, workspace.rows, gate_up, gate_up_linear.n);
  c.kernels.glu({.rows = group.rows_max(),
                 .columns = group.config.expert_inner(),
                 .expected_rows = group.expected_rows(),
                 .gate = group.gate(),
                 .clamp = group.clamp(),
                 .interleaved = group.in_out(),
                 .row_count = group.row_count(),
                 .gate_up = gate_up,
                 .y = workspace.inner});
  apply(group, down, workspace.inner, workspace.rows);
  adapters.add_to(ExpertProduct::down, workspace.inner, workspace.rows, down.n);
  combine(group, f, workspace.rows);
}

void backward_of_tile(const BlockContext& c, const BlockBackward& b) {
  const ExpertRange range = experts_of_group(c.graph, block_of(c).group);
  const ExpertsBackwardWorkspace workspace(c.graph, block_of(c).layer, range, b.workspace);
  CHECK(workspace.bytes <= block_of(c).backward_workspace, workspace.bytes.value, c.block);
  const Group group(c, b.experts, workspace.sorted);
  const GroupAdapters adapters(c, workspace.sorted, b.windows, workspace.adapters);
  const AdapterGradients of_adapters = adapter_gradients_of(c, b);
  const Linear gate_up_linear = gate_up_of(group, b.windows), down = down_of(group, b.windows);
  ConstValues gate_up = workspace.gate_up;
  group.sort();
  group.gather(b.experts.normed, workspace.rows);
  if (b.kept != nullptr) {
    gate_up = ExpertsInside(c.graph, range, const_cast<std::byte*>(b.kept)).gate_up;
  } else {
    apply(group, gate_up_linear, workspace.rows, workspace.gate_up);
    adapters.add_to(ExpertProduct::gate_up, workspace.rows, workspace.gate_up, gate_up_linear.n);
  }
  group.gather(group.is_branch() ? group.of_experts(b.experts.branches_grad) : b.grad, workspace.dout);
  input_gradient(group, down, workspace.dout, workspace.inner);
  adapters.input_gradient(ExpertProduct::down, workspace.dout, workspace.inner, down.n);
  c.kernels.glu_backward({.rows = group.rows_max(),
                          .columns = group.config.expert_inner(),
                          .expected_rows = group.expected_rows(),
                          .gate = group.gate(),
                          .clamp = group.clamp(),
                          .interleaved = group.in_out(),
                          .row_count = group.row_count(),
                          .gate_up = gate_up,
                          .dy = workspace.inner,
                          .dgate_up = workspace.dgate_up,
                          .value = workspace.inner,
                          .slots = workspace.sorted.slots,
                          .weights = group.routes.weights,
                          .dweights = b.experts.routes_grad});
  if (down.bias) add_route_bias_gradient(group, b, down, workspace.dout);
  // dout lacks the routing weights. For down's weights `inner` has them; for its bias they are factors.
  weight_gradients(group, b, down, workspace.inner, workspace.dout, group.routes.weights);
  adapters.weight_gradients(ExpertProduct::down, workspace.inner, workspace.dout, down.n, of_adapters);
  weight_gradients(group, b, gate_up_linear, workspace.rows, workspace.dgate_up);
  input_gradient(group, gate_up_linear, workspace.dgate_up, workspace.dout);
  adapters.gradients(ExpertProduct::gate_up, workspace.rows, workspace.dgate_up, workspace.dout,
                     gate_up_linear.n, of_adapters);
  combine_gradients(group, b, workspace.dout);
}

}  // namespace

void experts_forward(const BlockContext& c, const BlockForward& f) { for_tiles(c, f, forward_of_tile); }
void experts_backward(const BlockContext& c, const BlockBackward& b) { for_tiles(c, b, backward_of_tile); }

}  // namespace tidepool
