// Kernels is everything the model computes, behind one interface: the one wide interface of the project. A
// backend implements all of it; model code is written once against it. All pointers are to the backend's
// device memory, aligned to 64 bytes. No function allocates, synchronises beyond its own work, or uses
// floating-point atomics; every reduction has a fixed order, so an operation's bits depend on its arguments
// only. Calls return when the work is done or ordered on the backend.
// THREADS: not thread-safe, one caller at a time per object.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/distillation/distillation.h"
#include "kernels/embedding/embedding.h"
#include "kernels/experts/experts.h"
#include "kernels/experts/grouped_matmul.h"
#include "kernels/gate/sigmoid_gate.h"
#include "kernels/glu/glu.h"
#include "kernels/latent/latent.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/objective/objective.h"
#include "kernels/orthogonalize/matrix_passes.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/router/router.h"
#include "kernels/router/router_totals.h"
#include "kernels/scale_values/scale_values.h"
#include "kernels/soft_cap/soft_cap.h"
#include "kernels/unpack/unpack.h"

namespace tidepool {

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void zero(float* y, u64 elements) = 0;
  virtual void matmul(const Matmul&) = 0;
  virtual void weight_gradient(const WeightGradient&) = 0;
  virtual void layer_norm(const LayerNorm&) = 0;
  virtual void layer_norm_backward(const LayerNormBackward&) = 0;
  virtual void rms_norm(const RmsNorm&) = 0;
  virtual void rms_norm_backward(const RmsNormBackward&) = 0;
  virtual void rotary(const Rotary&) = 0;
  virtual void rotary_backward(const RotaryBackward&) = 0;
  virtual void attention(const Attention&) = 0;
  virtual void attention_backward(const AttentionBackward&) = 0;
  virtual void sigmoid_gate(const SigmoidGate&) = 0;
  virtual void sigmoid_gate_backward(const SigmoidGateBackward&) = 0;
  virtual void latent_rows(const LatentRows&) = 0;
  virtual void latent_rows_backward(const LatentRowsBackward&) = 0;
  virtual void copy_columns(const CopyColumns&) = 0;
  virtual void delta_convolution(const DeltaConvolution&) = 0;
  virtual void delta_convolution_backward(const DeltaConvolutionBackward&) = 0;
  virtual void gated_delta(const GatedDelta&) = 0;
  virtual void gated_delta_backward(const GatedDeltaBackward&) = 0;
  virtual void gated_norm(const GatedNorm&) = 0;
  virtual void gated_norm_backward(const GatedNormBackward&) = 0;
  virtual void group_norm(const GroupNorm&) = 0;
  virtual void group_norm_backward(const GroupNormBackward&) = 0;
  virtual void glu(const Glu&) = 0;
  virtual void glu_backward(const GluBackward&) = 0;
  virtual void router(const Router&) = 0;
  virtual void router_backward(const RouterBackward&) = 0;
  virtual void router_totals(const RouterTotals&) = 0;
  virtual void sort_by_expert(const SortByExpert&) = 0;
  virtual void gather_rows(const GatherRows&) = 0;
  virtual void grouped_matmul(const GroupedMatmul&) = 0;
  virtual void grouped_weight_gradient(const GroupedWeightGradient&) = 0;
  virtual void combine_experts(const CombineExperts&) = 0;
  virtual void route_bias_gradient(const RouteBiasGradient&) = 0;
  virtual void unpack(const Unpack&) = 0;
  virtual void normalize_matrix(const NormalizeMatrix&) = 0;
  virtual void add_product(const AddProduct&) = 0;
  virtual void scale_matrix(const ScaleMatrix&) = 0;
  virtual void embedding(const Embedding&) = 0;
  virtual void embedding_backward(const EmbeddingBackward&) = 0;
  // y = dropout(x); element 0 of x is element 0 of the dropout. y may be x.
  virtual void dropout(const Dropout&, ConstValues x, Values y, u64 elements) = 0;
  virtual void cross_entropy_slice(const LogitsSlice&) = 0;
  virtual void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums&) = 0;
  virtual void cross_entropy_gradient(const LogitsSlice&, const LossFactors&) = 0;
  virtual void target_outputs(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput,
                              float* outputs) = 0;
  virtual void unit_losses(const UnitLosses&) = 0;
  virtual void take_teacher_tokens(const LogitsSlice&, const TeacherTokens&) = 0;
  virtual void divergence_losses(const DivergenceLosses&) = 0;
  virtual void add_teacher_gradients(const LogitsSlice&, const TeacherTokens&, const LossFactors&) = 0;
  virtual void select_top(const LogitsSlice&, TopToken* top, u32 k) = 0;
  virtual void top_distributions(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows,
                                 u32 k, float* out) = 0;
  virtual void soft_cap(const SoftCap&) = 0;
  virtual void scale_values(const ScaleValues&) = 0;

  // RETURNS: a library's refusal since the last call, with the product's shape; results since then are
  // invalid. On a GPU, CUDA keeps its own errors in addition, for the caller that started the operation.
  virtual Result<void> take_refusal() { return {}; }
  // Waits until all called operations are done, for timing. Errors: as take_refusal(), and CUDA's.
  virtual Result<void> finish() = 0;
};

// Scratch per worker that the CPU kernels need of CorePool.
inline constexpr Bytes kernel_scratch_per_worker{4 * mib};

// REQUIRES: pool.scratch_bytes() >= kernel_scratch_per_worker; the pool outlives the kernels.
std::unique_ptr<Kernels> create_cpu_kernels(CorePool& pool);

}  // namespace tidepool
