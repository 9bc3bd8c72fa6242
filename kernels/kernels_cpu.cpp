#include "kernels/kernels.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/matmul/scratch.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

static_assert(sizeof(TileScratch) <= kernel_scratch_per_worker.value);

constexpr u64 piece_elements = 256 * kib;

class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(CorePool& pool) : pool_(pool) {
    CHECK(pool.scratch_bytes() >= kernel_scratch_per_worker, pool.scratch_bytes().value);
  }

  void zero(float* y, u64 elements) override {
    for_pieces(elements, [&](u64 begin, u64 n) { std::memset(y + begin, 0, n * sizeof(float)); });
  }
  void matmul(const Matmul& op) override { matmul_cpu(op, pool_); }
  void weight_gradient(const WeightGradient& op) override { weight_gradient_cpu(op, pool_); }
  void layer_norm(const LayerNorm& op) override { layer_norm_cpu(op, pool_); }
  void layer_norm_backward(const LayerNormBackward& op) override { layer_norm_backward_cpu(op, pool_); }
  void rms_norm(const RmsNorm& op) override { rms_norm_cpu(op, pool_); }
  void rms_norm_backward(const RmsNormBackward& op) override { rms_norm_backward_cpu(op, pool_); }
  void rotary(const Rotary& op) override { rotary_cpu(op, pool_); }
  void rotary_backward(const RotaryBackward& op) override { rotary_backward_cpu(op, pool_); }
  void attention(const Attention& op) override { attention_cpu(op, pool_); }
  void attention_backward(const AttentionBackward& op) override { attention_backward_cpu(op, pool_); }
  void sigmoid_gate(const SigmoidGate& op) override { sigmoid_gate_cpu(op, pool_); }
  void sigmoid_gate_backward(const SigmoidGateBackward& op) override { sigmoid_gate_backward_cpu(op, pool_); }
  void glu(const Glu& op) override { glu_cpu(op, pool_); }
  void glu_backward(const GluBackward& op) override { glu_backward_cpu(op, pool_); }
  void router(const Router& op) override { router_cpu(op, pool_); }
  void router_backward(const RouterBackward& op) override { router_backward_cpu(op, pool_); }
  void router_totals(const RouterTotals& op) override { router_totals_cpu(op); }
  void sort_by_expert(const SortByExpert& op) override { sort_by_expert_cpu(op, pool_); }
  void gather_rows(const GatherRows& op) override { gather_rows_cpu(op, pool_); }
  void grouped_matmul(const GroupedMatmul& op) override { grouped_matmul_cpu(op, pool_); }
  void grouped_weight_gradient(const GroupedWeightGradient& op) override {
    grouped_weight_gradient_cpu(op, pool_);
  }
  void combine_experts(const CombineExperts& op) override { combine_experts_cpu(op, pool_); }
  void route_bias_gradient(const RouteBiasGradient& op) override { route_bias_gradient_cpu(op, pool_); }
  void latent_rows(const LatentRows& op) override { latent_rows_cpu(op, pool_); }
  void latent_rows_backward(const LatentRowsBackward& op) override { latent_rows_backward_cpu(op, pool_); }
  void copy_columns(const CopyColumns& op) override { copy_columns_cpu(op, pool_); }
  void delta_convolution(const DeltaConvolution& op) override { delta_convolution_cpu(op, pool_); }
  void delta_convolution_backward(const DeltaConvolutionBackward& op) override {
    delta_convolution_backward_cpu(op, pool_);
  }
  void gated_delta(const GatedDelta& op) override { gated_delta_cpu(op, pool_); }
  void gated_delta_backward(const GatedDeltaBackward& op) override { gated_delta_backward_cpu(op, pool_); }
  void gated_norm(const GatedNorm& op) override { gated_norm_cpu(op, pool_); }
  void gated_norm_backward(const GatedNormBackward& op) override { gated_norm_backward_cpu(op, pool_); }
  void group_norm(const GroupNorm& op) override { group_norm_cpu(op, pool_); }
  void group_norm_backward(const GroupNormBackward& op) override { group_norm_backward_cpu(op, pool_); }
  void unpack(const Unpack& op) override { unpack_cpu(op, pool_); }
  void normalize_matrix(const NormalizeMatrix& op) override { normalize_matrix_cpu(op, pool_); }
  void add_product(const AddProduct& op) override { add_product_cpu(op, pool_); }
  void scale_matrix(const ScaleMatrix& op) override { scale_matrix_cpu(op, pool_); }
  void embedding(const Embedding& op) override { embedding_cpu(op, pool_); }
  void embedding_backward(const EmbeddingBackward& op) override { embedding_backward_cpu(op, pool_); }
  void dropout(const Dropout& dropout, ConstValues x, Values y, u64 elements) override {
    const float* from = x.fp32();
    float* to = y.fp32();
    for_pieces(elements, [&](u64 begin, u64 n) { dropout_row(dropout, begin, from + begin, to + begin, n); });
  }
  void cross_entropy_slice(const LogitsSlice& slice) override { cross_entropy_slice_cpu(slice, pool_); }
  void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums& sums) override {
    tidepool::cross_entropy_loss(losses, targets, rows, sums);
  }
  void cross_entropy_gradient(const LogitsSlice& slice, const LossFactors& factors) override {
    cross_entropy_gradient_cpu(slice, factors, pool_);
  }
  void target_outputs(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput output,
                      float* outputs) override {
    tidepool::target_outputs(losses, targets, rows, output, outputs);
  }
  void unit_losses(const UnitLosses& op) override { unit_losses_cpu(op); }
  void take_teacher_tokens(const LogitsSlice& slice, const TeacherTokens& op) override {
    take_teacher_tokens_cpu(slice, op, pool_);
  }
  void divergence_losses(const DivergenceLosses& op) override { divergence_losses_cpu(op, pool_); }
  void add_teacher_gradients(const LogitsSlice& slice, const TeacherTokens& op,
                             const LossFactors& factors) override {
    add_teacher_gradients_cpu(slice, op, factors, pool_);
  }
  void select_top(const LogitsSlice& slice, TopToken* top, u32 k) override {
    select_top_cpu(slice, top, k, pool_);
  }
  void top_distributions(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                         float* out) override {
    tidepool::top_distributions(losses, targets, top, rows, k, out);
  }
  void soft_cap(const SoftCap& op) override { soft_cap_cpu(op); }
  void scale_values(const ScaleValues& op) override {
    float scratch;
    const float factor = *rows::widened(op.factor, 1, &scratch);
    float* const x = op.x.fp32();
    for_pieces(op.elements, [&](u64 begin, u64 n) { rows::scale(x + begin, factor, n); });
  }
  Result<void> finish() override { return {}; }

 private:
  template <class Fn>
  void for_pieces(u64 elements, Fn fn) {
    const u32 pieces = static_cast<u32>(div_up(elements, piece_elements));
    if (pieces == 0) return;
    parallel_for(pool_, Priority::normal, pieces, [&](u32 task, u32) {
      const u64 begin = task * piece_elements;
      fn(begin, std::min(piece_elements, elements - begin));
    });
  }

  CorePool& pool_;
};

}  // namespace

std::unique_ptr<Kernels> create_cpu_kernels(CorePool& pool) { return std::make_unique<CpuKernels>(pool); }

}  // namespace tidepool
