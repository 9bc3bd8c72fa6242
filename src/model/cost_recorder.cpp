#include "model/cost_recorder.h"

#include "kernels/activation/activation_cost.h"
#include "kernels/attention/attention_cost.h"
#include "kernels/cross_entropy/cross_entropy_cost.h"
#include "kernels/delta_rule/delta_rule_cost.h"
#include "kernels/distillation/distillation_cost.h"
#include "kernels/dropout/dropout_cost.h"
#include "kernels/embedding/embedding_cost.h"
#include "kernels/experts/experts_cost.h"
#include "kernels/gate/sigmoid_gate_cost.h"
#include "kernels/glu/glu_cost.h"
#include "kernels/latent/latent_cost.h"
#include "kernels/layer_norm/layer_norm_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "kernels/orthogonalize/matrix_passes_cost.h"
#include "kernels/rms_norm/rms_norm_cost.h"
#include "kernels/rotary/rotary_cost.h"
#include "kernels/router/router_cost.h"
#include "kernels/scale_values/scale_values_cost.h"
#include "kernels/soft_cap/soft_cap_cost.h"
#include "kernels/unpack/unpack_cost.h"

namespace tidepool {
namespace {

// Rows of experts are counted as if routing were even.
template <class Op>
u64 rows_of(const Op& op) {
  return op.expected_rows != 0 ? op.expected_rows : op.rows;
}

}  // namespace

// Dropout that is fused into a kernel costs the computation of its random bits, and moves nothing.
void CostRecorder::add_with_dropout(KernelCost cost, const Dropout& dropout, u64 elements) {
  if (dropout.on()) cost.vector_flops += dropout_flops(elements);
  add(cost);
}

void CostRecorder::matmul(const Matmul& op) {
  const KernelCost product = matmul_cost(op.m, op.n, op.k, values_bytes(1, op.weight.precision));
  const u64 elements = u64{op.m} * op.n;
  switch (op.epilogue) {
    case Epilogue::none:
      return add(product);
    case Epilogue::gelu:
      add(product);
      return add(gelu_cost(elements));
    case Epilogue::gelu_backward:
      add(product);
      return add(gelu_backward_cost(elements));
    case Epilogue::squared_relu:
      add(product);
      return add(squared_relu_cost(elements));
    case Epilogue::squared_relu_backward:
      add(product);
      return add(squared_relu_backward_cost(elements));
    case Epilogue::residual:
      // A product whose residual is its own output accumulates, and libraries fuse that.
      if (op.residual == ConstValues(op.y)) return add_with_dropout(product, op.dropout, elements);
      add(product);
      return add_with_dropout(residual_cost(op.m, op.n), op.dropout, elements);
  }
}

void CostRecorder::weight_gradient(const WeightGradient& op) {
  add(op.transposed ? weight_gradient_cost(op.m, op.k, op.n) : weight_gradient_cost(op.m, op.n, op.k));
  if (op.dbias != nullptr) add(bias_gradient_cost(op.m, op.n));
}

void CostRecorder::layer_norm(const LayerNorm& op) { add(layer_norm_cost(op.rows, op.columns)); }
void CostRecorder::layer_norm_backward(const LayerNormBackward& op) {
  add(layer_norm_backward_cost(op.rows, op.columns));
}
void CostRecorder::rms_norm(const RmsNorm& op) { add(rms_norm_cost(op.rows, op.columns, bool(op.residual))); }
void CostRecorder::rms_norm_backward(const RmsNormBackward& op) {
  add(rms_norm_backward_cost(op.rows, op.columns));
}

void CostRecorder::rotary(const Rotary& op) { add(rotary_cost(op.shape, bool(op.q_norm))); }
void CostRecorder::rotary_backward(const RotaryBackward& op) {
  add(rotary_backward_cost(op.shape, bool(op.q_norm)));
}

void CostRecorder::attention(const Attention& op) {
  add_with_dropout(attention_cost(op.shape, op.tile), op.dropout, attention_pairs(op.shape, op.tile));
}
void CostRecorder::attention_backward(const AttentionBackward& op) {
  add_with_dropout(attention_backward_cost(op.shape, op.tile), op.dropout,
                   attention_pairs(op.shape, op.tile));
}

void CostRecorder::sigmoid_gate(const SigmoidGate& op) { add(sigmoid_gate_cost(op.shape)); }
void CostRecorder::sigmoid_gate_backward(const SigmoidGateBackward& op) {
  add(sigmoid_gate_backward_cost(op.shape));
}

void CostRecorder::glu(const Glu& op) { add(glu_cost(rows_of(op) * op.columns, op.gate)); }
void CostRecorder::glu_backward(const GluBackward& op) {
  add(glu_backward_cost(rows_of(op) * op.columns, op.gate));
}

void CostRecorder::router(const Router& op) { add(router_cost(op.rows, op.rule.experts, op.rule.chosen)); }
void CostRecorder::router_backward(const RouterBackward& op) {
  add(router_backward_cost(op.rows, op.rule.experts, op.rule.chosen));
}
void CostRecorder::sort_by_expert(const SortByExpert& op) {
  add(sort_by_expert_cost(u64{op.rows} * op.chosen));
}
void CostRecorder::gather_rows(const GatherRows& op) { add(gather_rows_cost(op.expected_rows, op.columns)); }
void CostRecorder::grouped_matmul(const GroupedMatmul& op) {
  add(grouped_matmul_cost(op.expected_rows, op.n, op.k, op.experts, values_bytes(1, op.weight.precision)));
}
void CostRecorder::grouped_weight_gradient(const GroupedWeightGradient& op) {
  add(grouped_weight_gradient_cost(op.expected_rows, op.n, op.k, op.experts));
  if (op.dbias != nullptr) add(bias_gradient_cost(op.expected_rows, op.n));
}
void CostRecorder::combine_experts(const CombineExperts& op) {
  const u64 sums = (op.sum_in != nullptr) + (op.sum_out != nullptr) + u64{bool(op.residual)} + bool(op.y);
  add(combine_experts_cost(op.expected_rows, op.rows, op.columns, sums));
}
void CostRecorder::route_bias_gradient(const RouteBiasGradient& op) {
  add(route_bias_gradient_cost(op.expected_rows, op.columns));
}

void CostRecorder::latent_rows(const LatentRows& op) { add(latent_rows_cost(op.shape)); }
void CostRecorder::latent_rows_backward(const LatentRowsBackward& op) {
  add(latent_rows_backward_cost(op.shape));
}
void CostRecorder::copy_columns(const CopyColumns& op) {
  add(copy_columns_cost(op.rows, op.columns, op.add));
}

void CostRecorder::delta_convolution(const DeltaConvolution& op) { add(delta_convolution_cost(op.shape)); }
void CostRecorder::delta_convolution_backward(const DeltaConvolutionBackward& op) {
  add(delta_convolution_backward_cost(op.shape));
}
void CostRecorder::gated_delta(const GatedDelta& op) { add(gated_delta_cost(op.shape)); }
void CostRecorder::gated_delta_backward(const GatedDeltaBackward& op) {
  add(gated_delta_backward_cost(op.shape));
}
void CostRecorder::gated_norm(const GatedNorm& op) { add(gated_norm_cost(op.shape)); }
void CostRecorder::gated_norm_backward(const GatedNormBackward& op) {
  add(gated_norm_backward_cost(op.shape));
}
void CostRecorder::group_norm(const GroupNorm& op) { add(group_norm_cost(op.shape)); }
void CostRecorder::group_norm_backward(const GroupNormBackward& op) {
  add(group_norm_backward_cost(op.shape));
}

void CostRecorder::unpack(const Unpack& op) { add(unpack_cost(op)); }

void CostRecorder::normalize_matrix(const NormalizeMatrix& op) {
  add(normalize_matrix_cost(op.matrix.elements(), values_bytes(1, op.from.precision)));
}
void CostRecorder::add_product(const AddProduct& op) { add(add_product_cost(op.elements, bool(op.x))); }
void CostRecorder::scale_matrix(const ScaleMatrix& op) {
  add(scale_matrix_cost(op.matrix.elements(), values_bytes(1, op.to.precision)));
}

void CostRecorder::embedding(const Embedding& op) {
  const u64 rows = u64{op.sequences} * op.tokens_per_sequence;
  add_with_dropout(embedding_cost(rows, op.columns), op.dropout, rows * op.columns);
}
void CostRecorder::embedding_backward(const EmbeddingBackward& op) {
  add(embedding_backward_cost(u64{op.sequences} * op.tokens_per_sequence, op.columns));
}

void CostRecorder::dropout(const Dropout&, ConstValues, Values, u64 elements) { add(dropout_cost(elements)); }

void CostRecorder::cross_entropy_slice(const LogitsSlice& slice) {
  add(cross_entropy_cost(slice.rows, slice.columns, slice.cap != 0, slice.logit_sums != nullptr));
}
void CostRecorder::cross_entropy_gradient(const LogitsSlice& slice, const LossFactors&) {
  add(cross_entropy_gradient_cost(slice.rows, slice.columns, slice.cap != 0));
}
void CostRecorder::take_teacher_tokens(const LogitsSlice&, const TeacherTokens& op) {
  add(teacher_tokens_cost(op.rows, op.rule.top_k));
}
void CostRecorder::divergence_losses(const DivergenceLosses& op) {
  add(divergence_cost(op.tokens.rows, op.tokens.rule.top_k));
}
void CostRecorder::add_teacher_gradients(const LogitsSlice&, const TeacherTokens& op, const LossFactors&) {
  add(teacher_tokens_cost(op.rows, op.rule.top_k));
}
void CostRecorder::select_top(const LogitsSlice& slice, TopToken*, u32) {
  add(select_top_cost(slice.rows, slice.columns));
}
void CostRecorder::soft_cap(const SoftCap& op) { add(soft_cap_cost(op.elements)); }
void CostRecorder::scale_values(const ScaleValues& op) { add(scale_values_cost(op.elements)); }

}  // namespace tidepool
