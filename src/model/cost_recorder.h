// CostRecorder records the costs of kernels. A block's code runs on it as on any other Kernels, and nothing
// is computed.
#pragma once

#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// Kernels that record costs. Pointers are compared, and never dereferenced. Work that is fused into a kernel,
// such as a product's bias, is free. Work that needs a pass of its own is an entry of its own, so the entry
// of an epilogue follows that of its product.
class CostRecorder final : public Kernels {
 public:
  std::vector<KernelCost> take() { return std::move(costs_); }

  void zero(float*, u64) override {}  // free: it clears padding, a few bytes
  void matmul(const Matmul&) override;
  void weight_gradient(const WeightGradient&) override;
  void layer_norm(const LayerNorm&) override;
  void layer_norm_backward(const LayerNormBackward&) override;
  void rms_norm(const RmsNorm&) override;
  void rms_norm_backward(const RmsNormBackward&) override;
  void rotary(const Rotary&) override;
  void rotary_backward(const RotaryBackward&) override;
  void attention(const Attention&) override;
  void attention_backward(const AttentionBackward&) override;
  void sigmoid_gate(const SigmoidGate&) override;
  void sigmoid_gate_backward(const SigmoidGateBackward&) override;
  void glu(const Glu&) override;
  void glu_backward(const GluBackward&) override;
  void router(const Router&) override;
  void router_backward(const RouterBackward&) override;
  void router_totals(const RouterTotals&) override {}  // free: a few numbers per layer and expert
  void sort_by_expert(const SortByExpert&) override;
  void gather_rows(const GatherRows&) override;
  void grouped_matmul(const GroupedMatmul&) override;
  void grouped_weight_gradient(const GroupedWeightGradient&) override;
  void combine_experts(const CombineExperts&) override;
  void route_bias_gradient(const RouteBiasGradient&) override;
  void latent_rows(const LatentRows&) override;
  void latent_rows_backward(const LatentRowsBackward&) override;
  void copy_columns(const CopyColumns&) override;
  void delta_convolution(const DeltaConvolution&) override;
  void delta_convolution_backward(const DeltaConvolutionBackward&) override;
  void gated_delta(const GatedDelta&) override;
  void gated_delta_backward(const GatedDeltaBackward&) override;
  void gated_norm(const GatedNorm&) override;
  void gated_norm_backward(const GatedNormBackward&) override;
  void group_norm(const GroupNorm&) override;
  void group_norm_backward(const GroupNormBackward&) override;
  void unpack(const Unpack&) override;
  void normalize_matrix(const NormalizeMatrix&) override;
  void add_product(const AddProduct&) override;
  void scale_matrix(const ScaleMatrix&) override;
  void embedding(const Embedding&) override;
  void embedding_backward(const EmbeddingBackward&) override;
  void dropout(const Dropout&, ConstValues x, Values y, u64 elements) override;
  void cross_entropy_slice(const LogitsSlice&) override;
  void cross_entropy_loss(RowLoss*, const i32*, u32, const LossSums&) override {
  }  // free: a few numbers per row
  void cross_entropy_gradient(const LogitsSlice&, const LossFactors&) override;
  void target_outputs(const RowLoss*, const i32*, u32, TargetOutput, float*) override {}
  void unit_losses(const UnitLosses&) override {}  // a few additions per row
  void take_teacher_tokens(const LogitsSlice&, const TeacherTokens&) override;
  void divergence_losses(const DivergenceLosses&) override;
  void add_teacher_gradients(const LogitsSlice&, const TeacherTokens&, const LossFactors&) override;
  void select_top(const LogitsSlice&, TopToken* top, u32 k) override;
  void top_distributions(const RowLoss*, const i32*, const TopToken*, u32, u32, float*) override {
  }  // free: a few numbers per row
  void soft_cap(const SoftCap&) override;
  void scale_values(const ScaleValues&) override;
  Result<void> finish() override { return {}; }

 private:
  void add(const KernelCost& cost) { costs_.push_back(cost); }
  void add_with_dropout(KernelCost, const Dropout&, u64 elements);

  std::vector<KernelCost> costs_;
};

}  // namespace tidepool
