// Declares every operation of kernels.h on a CUDA stream; each lies in its operation's folder (*_cuda.cu).
// All return at once. Pointers are to device memory; contracts are those of the CPU functions of the same
// names.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/distillation/distillation.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/experts/experts.h"
#include "kernels/experts/grouped_matmul.h"
#include "kernels/gate/sigmoid_gate.h"
#include "kernels/glu/glu.h"
#include "kernels/gradient/step_result.h"
#include "kernels/latent/latent.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/objective/objective.h"
#include "kernels/orthogonalize/matrix_passes.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/router/router.h"
#include "kernels/router/router_totals.h"
#include "kernels/scale_values/scale_values.h"
#include "kernels/soft_cap/soft_cap.h"
#include "kernels/unpack/unpack.h"
#include "kernels/update/update_scalars.h"

namespace tidepool {

void zero_cuda(float* y, u64 elements, cudaStream_t);
void layer_norm_cuda(const LayerNorm&, cudaStream_t);
void layer_norm_backward_cuda(const LayerNormBackward&, cudaStream_t);
void rms_norm_cuda(const RmsNorm&, cudaStream_t);
void rms_norm_backward_cuda(const RmsNormBackward&, cudaStream_t);
void rotary_cuda(const Rotary&, cudaStream_t);
void rotary_backward_cuda(const RotaryBackward&, cudaStream_t);
void sigmoid_gate_cuda(const SigmoidGate&, cudaStream_t);
void sigmoid_gate_backward_cuda(const SigmoidGateBackward&, cudaStream_t);
void glu_cuda(const Glu&, cudaStream_t);
void glu_backward_cuda(const GluBackward&, cudaStream_t);
void router_cuda(const Router&, cudaStream_t);
void router_backward_cuda(const RouterBackward&, cudaStream_t);
void router_totals_cuda(const RouterTotals&, cudaStream_t);
void sort_by_expert_cuda(const SortByExpert&, cudaStream_t);
void gather_rows_cuda(const GatherRows&, cudaStream_t);
void grouped_matmul_cuda(const GroupedMatmul&, cudaStream_t);
void grouped_weight_gradient_cuda(const GroupedWeightGradient&, cudaStream_t);
void combine_experts_cuda(const CombineExperts&, cudaStream_t);
void route_bias_gradient_cuda(const RouteBiasGradient&, cudaStream_t);
void latent_rows_cuda(const LatentRows&, cudaStream_t);
void latent_rows_backward_cuda(const LatentRowsBackward&, cudaStream_t);
void copy_columns_cuda(const CopyColumns&, cudaStream_t);
void delta_convolution_cuda(const DeltaConvolution&, cudaStream_t);
void delta_convolution_backward_cuda(const DeltaConvolutionBackward&, cudaStream_t);
void gated_delta_cuda(const GatedDelta&, cudaStream_t);
void gated_delta_backward_cuda(const GatedDeltaBackward&, cudaStream_t);
void gated_norm_cuda(const GatedNorm&, cudaStream_t);
void gated_norm_backward_cuda(const GatedNormBackward&, cudaStream_t);
void group_norm_cuda(const GroupNorm&, cudaStream_t);
void group_norm_backward_cuda(const GroupNormBackward&, cudaStream_t);
void unpack_cuda(const Unpack&, cudaStream_t);  // the bits of unpack_cpu()
void normalize_matrix_cuda(const NormalizeMatrix&, cudaStream_t);
void add_product_cuda(const AddProduct&, cudaStream_t);
void scale_matrix_cuda(const ScaleMatrix&, cudaStream_t);
void attention_cuda(const Attention&, cudaStream_t);
void attention_backward_cuda(const AttentionBackward&, cudaStream_t);
void dropout_cuda(const Dropout&, ConstValues x, Values y, u64 elements, cudaStream_t);

// Limit of arrays that are summed at once.
inline constexpr u32 summed_parts_max = 16;

// Computes the scalars of a step's updates on the device that has the norm. Without clipping `result` is
// null, because nothing waits for the norm then.
void update_scalars_cuda(const UpdateStep&, const StepResult* result, UpdateScalars* scalars, cudaStream_t);
void put_update_scalars_cuda(const UpdateScalars&, UpdateScalars* to, cudaStream_t);

// kernels/gradient/gradient.h, with the same bits. Lists of pointers are in host memory, and point to device
// memory.
void finish_gradient_cuda(std::span<const float* const> accumulators, std::byte* grad, Precision,
                          u64 elements, cudaStream_t);
void sum_in_order_cuda(std::span<const float* const> parts, float* sum, u64 elements, cudaStream_t);
void norm_partials_cuda(const std::byte* grad, Precision, u64 elements, double* partials, cudaStream_t);
void norm_cells_cuda(const std::byte* grad, Precision, u64 elements, double* cells, cudaStream_t);
// Sums granules that several devices share: partials[places[i]] = the sum, in order, of the cells of granule
// i, [count, norm_granule_elements / norm_cell_elements]. Cells past the end are 0.
void norm_granules_cuda(const double* cells, const u32* places, u32 count, double* partials, cudaStream_t);

// y += x, in double: adds numbers of several devices.
void add_numbers_cuda(double* y, const double* x, u64 n, cudaStream_t);

// Sums a step's losses and partials, each in order, as the host does.
struct NormFinish {
  const Sums* sums = nullptr;  // [sums_count] by micro-batch
  u32 sums_count = 0;
  const double* partials = nullptr;  // [partial_count] by window and granule
  u64 partial_count = 0;
  u64 target_tokens = 0;
  LossScale* loss_scale = nullptr;  // in: scale of the step; out: scale of the next step
  LossScaling loss_scaling;
  StepResult* result = nullptr;
};
void norm_finish_cuda(const NormFinish&, cudaStream_t);
void set_loss_scale_cuda(const LossScale&, LossScale* to, cudaStream_t);

void cross_entropy_slice_cuda(const LogitsSlice&, cudaStream_t);
// loss_sum: device memory, or null. Each of 1024 threads sums every 1024th row, in order; the threads' sums
// are then added in pairs, so the bits depend on the rows, not on the device.
void cross_entropy_loss_cuda(RowLoss* losses, const i32* targets, u32 rows, const LossSums&, cudaStream_t);
void cross_entropy_gradient_cuda(const LogitsSlice&, const LossFactors&, cudaStream_t);
void target_outputs_cuda(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput, float* outputs,
                         cudaStream_t);
void unit_losses_cuda(const UnitLosses&, cudaStream_t);
void take_teacher_tokens_cuda(const LogitsSlice&, const TeacherTokens&, cudaStream_t);
// Threads sum every 1024th row, as in cross_entropy_loss_cuda().
void divergence_losses_cuda(const DivergenceLosses&, cudaStream_t);
void add_teacher_gradients_cuda(const LogitsSlice&, const TeacherTokens&, const LossFactors&, cudaStream_t);
void select_top_cuda(const LogitsSlice&, TopToken* top, u32 k, cudaStream_t);
void top_distributions_cuda(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                            float* out, cudaStream_t);
void soft_cap_cuda(const SoftCap&, cudaStream_t);
void scale_values_cuda(const ScaleValues&, cudaStream_t);

void embedding_cuda(const Embedding&, cudaStream_t);
// REQUIRES: every token is below the vocabulary; otherwise the kernel traps.
void embedding_backward_cuda(const EmbeddingBackward&, cudaStream_t);

// kernels/activation/activation.h on n elements: y = gelu(x), y may be x. dx = dy gelu'(x), and value =
// gelu(x) unless null; any of them may be the same array.
void gelu_cuda(ConstValues x, Values y, u64 n, cudaStream_t);
void gelu_backward_cuda(ConstValues x, ConstValues dy, Values dx, Values value, u64 n, cudaStream_t);
void squared_relu_cuda(ConstValues x, Values y, u64 n, cudaStream_t);
void squared_relu_backward_cuda(ConstValues x, ConstValues dy, Values dx, Values value, u64 n, cudaStream_t);

}  // namespace tidepool
