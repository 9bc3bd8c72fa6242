#include "kernels/kernels_cuda.h"

#include <utility>

#include "base/check.h"
#include "kernels/attention/cudnn_attention_cuda.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/matmul/matmul_cuda.h"

namespace tidepool {
namespace {

class CudaKernels final : public Kernels {
 public:
  // `attention`: null if our own kernels are used for all shapes.
  CudaKernels(std::unique_ptr<CudaMatmul> matmul, std::unique_ptr<cuda::CudnnAttention> attention,
              cudaStream_t stream)
      : matmul_(std::move(matmul)), attention_(std::move(attention)), stream_(stream) {}

  void zero(float* y, u64 elements) override { zero_cuda(y, elements, stream_); }
  void matmul(const Matmul& op) override { note(matmul_->matmul(op, stream_)); }
  void weight_gradient(const WeightGradient& op) override { note(matmul_->weight_gradient(op, stream_)); }
  void layer_norm(const LayerNorm& op) override { layer_norm_cuda(op, stream_); }
  void layer_norm_backward(const LayerNormBackward& op) override { layer_norm_backward_cuda(op, stream_); }
  void rms_norm(const RmsNorm& op) override { rms_norm_cuda(op, stream_); }
  void rms_norm_backward(const RmsNormBackward& op) override { rms_norm_backward_cuda(op, stream_); }
  void rotary(const Rotary& op) override { rotary_cuda(op, stream_); }
  void rotary_backward(const RotaryBackward& op) override { rotary_backward_cuda(op, stream_); }
  void attention(const Attention& op) override {
    if (!done(attention_ ? attention_->forward(op) : false)) attention_cuda(op, stream_);
  }
  void attention_backward(const AttentionBackward& op) override {
    if (!done(attention_ ? attention_->backward(op) : false)) attention_backward_cuda(op, stream_);
  }
  void sigmoid_gate(const SigmoidGate& op) override { sigmoid_gate_cuda(op, stream_); }
  void sigmoid_gate_backward(const SigmoidGateBackward& op) override {
    sigmoid_gate_backward_cuda(op, stream_);
  }
  void glu(const Glu& op) override { glu_cuda(op, stream_); }
  void glu_backward(const GluBackward& op) override { glu_backward_cuda(op, stream_); }
  void router(const Router& op) override { router_cuda(op, stream_); }
  void router_backward(const RouterBackward& op) override { router_backward_cuda(op, stream_); }
  void router_totals(const RouterTotals& op) override { router_totals_cuda(op, stream_); }
  void sort_by_expert(const SortByExpert& op) override { sort_by_expert_cuda(op, stream_); }
  void gather_rows(const GatherRows& op) override { gather_rows_cuda(op, stream_); }
  void grouped_matmul(const GroupedMatmul& op) override { grouped_matmul_cuda(op, stream_); }
  void grouped_weight_gradient(const GroupedWeightGradient& op) override {
    grouped_weight_gradient_cuda(op, stream_);
  }
  void combine_experts(const CombineExperts& op) override { combine_experts_cuda(op, stream_); }
  void route_bias_gradient(const RouteBiasGradient& op) override { route_bias_gradient_cuda(op, stream_); }
  void latent_rows(const LatentRows& op) override { latent_rows_cuda(op, stream_); }
  void latent_rows_backward(const LatentRowsBackward& op) override { latent_rows_backward_cuda(op, stream_); }
  void copy_columns(const CopyColumns& op) override { copy_columns_cuda(op, stream_); }
  void delta_convolution(const DeltaConvolution& op) override { delta_convolution_cuda(op, stream_); }
  void delta_convolution_backward(const DeltaConvolutionBackward& op) override {
    delta_convolution_backward_cuda(op, stream_);
  }
  void gated_delta(const GatedDelta& op) override { gated_delta_cuda(op, stream_); }
  void gated_delta_backward(const GatedDeltaBackward& op) override { gated_delta_backward_cuda(op, stream_); }
  void gated_norm(const GatedNorm& op) override { gated_norm_cuda(op, stream_); }
  void gated_norm_backward(const GatedNormBackward& op) override { gated_norm_backward_cuda(op, stream_); }
  void group_norm(const GroupNorm& op) override { group_norm_cuda(op, stream_); }
  void group_norm_backward(const GroupNormBackward& op) override { group_norm_backward_cuda(op, stream_); }
  void unpack(const Unpack& op) override { unpack_cuda(op, stream_); }
  void normalize_matrix(const NormalizeMatrix& op) override { normalize_matrix_cuda(op, stream_); }
  void add_product(const AddProduct& op) override { add_product_cuda(op, stream_); }
  void scale_matrix(const ScaleMatrix& op) override { scale_matrix_cuda(op, stream_); }
  void embedding(const Embedding& op) override { embedding_cuda(op, stream_); }
  void embedding_backward(const EmbeddingBackward& op) override { embedding_backward_cuda(op, stream_); }
  void dropout(const Dropout& dropout, ConstValues x, Values y, u64 elements) override {
    dropout_cuda(dropout, x, y, elements, stream_);
  }
  void cross_entropy_slice(const LogitsSlice& slice) override { cross_entropy_slice_cuda(slice, stream_); }
  void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums& sums) override {
    cross_entropy_loss_cuda(losses, targets, rows, sums, stream_);
  }
  void cross_entropy_gradient(const LogitsSlice& slice, const LossFactors& factors) override {
    cross_entropy_gradient_cuda(slice, factors, stream_);
  }
  void target_outputs(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput output,
                      float* outputs) override {
    target_outputs_cuda(losses, targets, rows, output, outputs, stream_);
  }
  void unit_losses(const UnitLosses& op) override { unit_losses_cuda(op, stream_); }
  void take_teacher_tokens(const LogitsSlice& slice, const TeacherTokens& op) override {
    take_teacher_tokens_cuda(slice, op, stream_);
  }
  void divergence_losses(const DivergenceLosses& op) override { divergence_losses_cuda(op, stream_); }
  void add_teacher_gradients(const LogitsSlice& slice, const TeacherTokens& op,
                             const LossFactors& factors) override {
    add_teacher_gradients_cuda(slice, op, factors, stream_);
  }
  void select_top(const LogitsSlice& slice, TopToken* top, u32 k) override {
    select_top_cuda(slice, top, k, stream_);
  }
  void top_distributions(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                         float* out) override {
    top_distributions_cuda(losses, targets, top, rows, k, out, stream_);
  }
  void soft_cap(const SoftCap& op) override { soft_cap_cuda(op, stream_); }
  void scale_values(const ScaleValues& op) override { scale_values_cuda(op, stream_); }
  void tune(bool on) { matmul_->tune(on); }
  Result<void> take_refusal() override { return std::exchange(refusal_, {}); }
  Result<void> finish() override {
    Result<void> refused = take_refusal();
    TRY_CUDA(cudaGetLastError(), "starting kernels");
    TRY_CUDA(cudaStreamSynchronize(stream_), "waiting for kernels");
    return refused;
  }

 private:
  // Keeps the first refusal: later ones follow from results that were never written.
  void note(Result<void> done) {
    if (!done && refusal_) refusal_ = std::move(done);
  }

  // RETURNS: true if the library did the operation. True also if it failed: our own kernels must not take
  // over in the middle of a run.
  bool done(Result<bool> by_library) {
    if (by_library) return *by_library;
    note(by_library.error());
    return true;
  }

  std::unique_ptr<CudaMatmul> matmul_;
  std::unique_ptr<cuda::CudnnAttention> attention_;
  cudaStream_t stream_;
  Result<void> refusal_;
};

class TuningKernels final : public Kernels {
 public:
  explicit TuningKernels(CudaKernels& kernels) : kernels_(kernels) {}

  void matmul(const Matmul& op) override {
    tune([&] { kernels_.matmul(op); });
  }
  void weight_gradient(const WeightGradient& op) override {
    tune([&] { kernels_.weight_gradient(op); });
  }
  void zero(float*, u64) override {}
  void layer_norm(const LayerNorm&) override {}
  void layer_norm_backward(const LayerNormBackward&) override {}
  void rms_norm(const RmsNorm&) override {}
  void rms_norm_backward(const RmsNormBackward&) override {}
  void rotary(const Rotary&) override {}
  void rotary_backward(const RotaryBackward&) override {}
  void attention(const Attention&) override {}
  void attention_backward(const AttentionBackward&) override {}
  void sigmoid_gate(const SigmoidGate&) override {}
  void sigmoid_gate_backward(const SigmoidGateBackward&) override {}
  void glu(const Glu&) override {}
  void glu_backward(const GluBackward&) override {}
  void router(const Router&) override {}
  void router_backward(const RouterBackward&) override {}
  void router_totals(const RouterTotals&) override {}
  void sort_by_expert(const SortByExpert&) override {}
  void gather_rows(const GatherRows&) override {}
  void grouped_matmul(const GroupedMatmul&) override {}
  void grouped_weight_gradient(const GroupedWeightGradient&) override {}
  void combine_experts(const CombineExperts&) override {}
  void route_bias_gradient(const RouteBiasGradient&) override {}
  void latent_rows(const LatentRows&) override {}
  void latent_rows_backward(const LatentRowsBackward&) override {}
  void copy_columns(const CopyColumns&) override {}
  void delta_convolution(const DeltaConvolution&) override {}
  void delta_convolution_backward(const DeltaConvolutionBackward&) override {}
  void gated_delta(const GatedDelta&) override {}
  void gated_delta_backward(const GatedDeltaBackward&) override {}
  void gated_norm(const GatedNorm&) override {}
  void gated_norm_backward(const GatedNormBackward&) override {}
  void group_norm(const GroupNorm&) override {}
  void group_norm_backward(const GroupNormBackward&) override {}
  void unpack(const Unpack&) override {}
  void normalize_matrix(const NormalizeMatrix&) override {}
  void add_product(const AddProduct&) override {}
  void scale_matrix(const ScaleMatrix&) override {}
  void embedding(const Embedding&) override {}
  void embedding_backward(const EmbeddingBackward&) override {}
  void dropout(const Dropout&, ConstValues, Values, u64) override {}
  void cross_entropy_slice(const LogitsSlice&) override {}
  void cross_entropy_loss(RowLoss*, const i32*, u32, const LossSums&) override {}
  void cross_entropy_gradient(const LogitsSlice&, const LossFactors&) override {}
  void target_outputs(const RowLoss*, const i32*, u32, TargetOutput, float*) override {}
  void unit_losses(const UnitLosses&) override {}
  void take_teacher_tokens(const LogitsSlice&, const TeacherTokens&) override {}
  void divergence_losses(const DivergenceLosses&) override {}
  void add_teacher_gradients(const LogitsSlice&, const TeacherTokens&, const LossFactors&) override {}
  void select_top(const LogitsSlice&, TopToken*, u32) override {}
  void top_distributions(const RowLoss*, const i32*, const TopToken*, u32, u32, float*) override {}
  void soft_cap(const SoftCap&) override {}
  void scale_values(const ScaleValues&) override {}
  Result<void> finish() override { return kernels_.finish(); }

 private:
  template <class Fn>
  void tune(Fn call) {
    kernels_.tune(true);
    call();
    kernels_.tune(false);
  }

  CudaKernels& kernels_;
};

}  // namespace

Result<CudaKernelsMade> create_cuda_kernels(const CudaKernelsRequest& request) {
  const std::span<std::byte> workspace = request.workspace;
  CHECK(workspace.size() >= cuda_kernels_workspace.value, workspace.size());
  TRY(cuda::load_kernels());
  TRY_ASSIGN(auto matmul, CudaMatmul::create({.library = workspace.data(),
                                              .scratch = workspace.data() + cuda_library_workspace.value},
                                             request.choices));
  CudaKernelsMade made;
  std::unique_ptr<cuda::CudnnAttention> attention;
  const std::optional<AttentionToCome>& to_come = request.to_come;
  if (to_come && cuda::cudnn_attention_pays(to_come->shape, to_come->precision, cuda::current_capability())) {
    if (auto library = cudnn::Library::load()) {
      TRY_ASSIGN(attention, cuda::CudnnAttention::create({.library = std::move(library).value(),
                                                          .shape = *to_come,
                                                          .stream = request.stream,
                                                          .workspace = workspace,
                                                          .trial = request.trial}));
      made.attention = attention->describe();
    } else {
      made.attention = "our own kernels, slower here; " + library.error().message;
    }
  }
  auto kernels = std::make_unique<CudaKernels>(std::move(matmul), std::move(attention), request.stream);
  if (request.choices != nullptr) made.tuning = std::make_unique<TuningKernels>(*kernels);
  made.kernels = std::move(kernels);
  return made;
}

Result<std::string> attention_library(int capability) {
  if (!cuda::cudnn_attention_pays_on(capability)) return std::string("our own kernels");
  TRY_ASSIGN(const auto library, cudnn::Library::load());
  return "cuDNN " + library->version();
}

}  // namespace tidepool
