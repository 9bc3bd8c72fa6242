// The two blocks that make layers' inputs, then a layer's part; forward and backward of each.
#include "model/mlps/layer_inputs/layer_inputs.h"

#include <cmath>

#include "base/check.h"
#include "model/row_tiles.h"

namespace tidepool::layer_inputs {
namespace {

// ---- the blocks

enum Tensors : u32 { matrix, norm };
constexpr u32 only_window = 0, only_tensor = 0;

float scale_of_embedding(const ModelGraph& g) {
  return rounded_to_params(g, std::sqrt(static_cast<float>(g.config.layer_inputs.width)));
}
// Factor on the product of the residual stream, and that on the sum.
float product_factor(const ModelConfig& c) { return 1 / std::sqrt(static_cast<float>(c.width)); }
const float sum_factor = std::sqrt(0.5f);

struct InputsWorkspace {
  InputsWorkspace(const ModelGraph& g, std::byte* base, Direction direction) {
    const u64 rows = g.batch.tile_rows() * g.config.layers, p = g.config.layer_inputs.width;
    const bool backward = direction == Direction::backward;
    WorkspaceCutter layout(base);
    product = layout.take_values(g.activations, rows * p);
    normed = layout.take_values(g.activations, backward ? rows * p : 0);
    rstd = layout.take<float>(backward ? rows : 0);
    partials = layout.take<float>(backward ? rms_norm_partials(rows, p) : 0);
    bytes = layout.bytes();
  }
  Values product;   // [R, layers, P]: before its norm; then its gradient
  Values normed;    // [R, layers, P]; backward only, as the next
  float* rstd;      // [R, layers]
  float* partials;  // of the norm's weight
  Bytes bytes;
};

u64 elements_of(const BlockContext& c) { return u64{rows_of(c)} * c.graph.config.layer_inputs_width(); }

void scale(const BlockContext& c, float factor, Values x) {
  Dropout by;
  by.factor = factor;
  c.kernels.dropout(by, x, x, elements_of(c));
}

void make_product(const BlockContext& c, std::span<const std::byte* const> windows, ConstValues x, Values y) {
  const ModelConfig& config = c.graph.config;
  c.kernels.matmul({.m = rows_of(c),
                    .n = config.layer_inputs_width(),
                    .k = config.width,
                    .x = x,
                    .weight = params_of(c, windows, only_window)[matrix],
                    .transposed = true,
                    .scale = product_factor(config),
                    .y = y});
}

// y = norm(product), or residual + norm(product); each layer's columns are a row of it.
RmsNorm norm_of_product(const BlockContext& c, std::span<const std::byte* const> windows, Values product,
                        Values y) {
  const ModelConfig& config = c.graph.config;
  return {.rows = rows_of(c) * config.layers,
          .columns = config.layer_inputs.width,
          .x = product,
          .weight = params_of(c, windows, only_window)[norm],
          .epsilon = static_cast<float>(config.norm_epsilon),
          .y = y};
}

}  // namespace

Block embedding_block(const ModelGraph& g, u32 window) {
  Block block = {.kind = BlockKind::embedding, .name = "layer_embedding", .windows = {window}};
  block.backward_workspace = EmbeddingBackwardWorkspace(g, nullptr).bytes;
  return block;
}

Block product_block(const ModelGraph& g, u32 window) {
  Block block = {.kind = BlockKind::layer_inputs, .name = "layer_inputs", .windows = {window}};
  block.forward_workspace = InputsWorkspace(g, nullptr, Direction::forward).bytes;
  block.backward_workspace = InputsWorkspace(g, nullptr, Direction::backward).bytes;
  return block;
}

namespace {

// Without positions all rows are as one sequence.
void embed_tile(const BlockContext& c, const BlockForward& f) {
  c.kernels.embedding({.sequences = 1,
                       .tokens_per_sequence = rows_of(c),
                       .columns = c.graph.config.layer_inputs_width(),
                       .tokens = f.batch.table_tokens,
                       .wte = params_of(c, f.windows, only_window)[only_tensor],
                       .scale = scale_of_embedding(c.graph),
                       .out = f.layer_inputs});
}

void embed_tile_backward(const BlockContext& c, const BlockBackward& b) {
  const EmbeddingBackwardWorkspace workspace(c.graph, b.workspace);
  c.kernels.embedding_backward({.sequences = 1,
                                .tokens_per_sequence = rows_of(c),
                                .columns = c.graph.config.layer_inputs_width(),
                                .vocabulary = c.graph.config.layer_inputs_rows(),
                                .positions = c.graph.config.positions,
                                .tokens = b.batch.table_tokens,
                                .dout = b.layer_inputs_grad,
                                .scale = scale_of_embedding(c.graph),
                                .dwte = gradients_of(c, b, only_window)[only_tensor],
                                .accumulate = b.accumulate,
                                .order = workspace.order});
}

void multiply_tile(const BlockContext& c, const BlockForward& f) {
  const InputsWorkspace workspace(c.graph, f.workspace, Direction::forward);
  CHECK(workspace.bytes == block_of(c).forward_workspace, workspace.bytes.value);
  make_product(c, f.windows, f.input, workspace.product);
  RmsNorm sum = norm_of_product(c, f.windows, workspace.product, f.layer_inputs);
  sum.residual = f.layer_inputs;
  c.kernels.rms_norm(sum);
  scale(c, sum_factor, f.layer_inputs);
}

void multiply_tile_backward(const BlockContext& c, const BlockBackward& b) {
  const InputsWorkspace workspace(c.graph, b.workspace, Direction::backward);
  CHECK(workspace.bytes == block_of(c).backward_workspace, workspace.bytes.value);
  const ModelConfig& config = c.graph.config;
  const WindowGradients gradients = gradients_of(c, b, only_window);
  const Values grad = b.layer_inputs_grad, product = workspace.product;
  make_product(c, b.windows, b.input, product);
  scale(c, sum_factor, grad);
  RmsNorm again = norm_of_product(c, b.windows, product, workspace.normed);  // for rstd alone
  again.rstd = workspace.rstd;
  c.kernels.rms_norm(again);
  c.kernels.rms_norm_backward({.rows = again.rows,
                               .columns = again.columns,
                               .x = product,
                               .weight = again.weight,
                               .rstd = workspace.rstd,
                               .dy = grad,
                               .dx = product,
                               .dweight = gradients[norm],
                               .accumulate = b.accumulate,
                               .partials = workspace.partials});
  scale(c, product_factor(config), product);
  const u32 columns = config.layer_inputs_width();
  if (gradients[matrix] != nullptr)
    c.kernels.weight_gradient({.m = rows_of(c),
                               .n = columns,
                               .k = config.width,
                               .x = b.input,
                               .dy = product,
                               .dw = gradients[matrix],
                               .accumulate = b.accumulate,
                               .transposed = true});
  c.kernels.matmul({.m = rows_of(c),
                    .n = config.width,
                    .k = columns,
                    .x = product,
                    .weight = params_of(c, b.windows, only_window)[matrix],
                    .accumulate = true,
                    .y = b.grad});
}

}  // namespace

void embedding_forward(const BlockContext& c, const BlockForward& f) { for_tiles(c, f, embed_tile); }
void embedding_backward(const BlockContext& c, const BlockBackward& b) {
  for_tiles(c, b, embed_tile_backward);
}
void product_forward(const BlockContext& c, const BlockForward& f) { for_tiles(c, f, multiply_tile); }
void product_backward(const BlockContext& c, const BlockBackward& b) {
  for_tiles(c, b, multiply_tile_backward);
}

// ---- a layer's part

namespace {

Product gate_product(const Layer& l) { return l.product(LayerRole::inputs_gate, LayerRole::absent); }
Product projection(const Layer& l) { return l.product(LayerRole::inputs_projection, LayerRole::absent); }

u32 width_of(const Layer& l) { return l.config().layer_inputs.width; }

// Copies P columns of each row.
void copy(const Layer& l, ConstValues x, u32 x_stride, Values y, u32 y_stride) {
  l.c.kernels.copy_columns({.rows = rows_of(l.c),
                            .columns = width_of(l),
                            .x = x,
                            .x_stride = x_stride,
                            .y = y,
                            .y_stride = y_stride});
}

void inner_of(const Layer& l, ConstValues values, Values inner) {
  l.c.kernels.glu(
      {.rows = rows_of(l.c), .columns = width_of(l), .gate = GluGate::gelu, .gate_up = values, .y = inner});
}

ResidualSum residual_sum_of(const Sum& sum) {
  return {.residual = sum.residual, .branch = sum.branch, .y = sum.y, .norm = NormRole::inputs_branch};
}

}  // namespace

void add_to_stream(const Layer& l, const Sum& sum) {
  const u32 p = width_of(l), all = l.config().layer_inputs_width();
  product(l, gate_product(l), sum.residual, sum.scratch.narrow);
  copy(l, sum.scratch.narrow, p, sum.values, 2 * p);
  copy(l, sum.inputs.at(u64{l.number()} * p), all, sum.values.at(p), 2 * p);
  inner_of(l, sum.values, sum.scratch.inner);
  add_product(l, projection(l), sum.scratch.inner, residual_sum_of(sum));
}

void gradients_of_sum(const LayerGradients& s) {
  const Layer& l = s.layer;
  const u32 p = width_of(l), all = l.config().layer_inputs_width();
  const InputsScratch& scratch = s.frame.inputs;
  const ConstValues dout = sum_gradient(
      s, {.branch = s.inside.inputs_branch, .norm = NormRole::inputs_branch}, s.frame.buffers.narrow);
  inner_of(l, s.inside.input_values, scratch.inner);
  gradients(s, projection(l), scratch.inner, dout, scratch.narrow);
  l.c.kernels.glu_backward({.rows = rows_of(l.c),
                            .columns = p,
                            .gate = GluGate::gelu,
                            .gate_up = s.inside.input_values,
                            .dy = scratch.narrow,
                            .dgate_up = scratch.values,
                            .value = scratch.inner});
  copy(l, scratch.values.at(p), 2 * p, s.b.layer_inputs_grad.at(u64{l.number()} * p), all);
  copy(l, scratch.values, 2 * p, scratch.narrow, p);
  gradients(s, gate_product(l), s.inside.before_inputs, scratch.narrow, s.b.grad, true);
}

}  // namespace tidepool::layer_inputs
