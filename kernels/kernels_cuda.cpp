#include "kernels/kernels_cuda.h"

#include <utility>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/matmul/matmul_cuda.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

class CudaKernels final : public Kernels {
 public:
  CudaKernels(std::unique_ptr<CudaMatmul> matmul, cudaStream_t stream)
      : matmul_(std::move(matmul)), stream_(stream) {}

  void zero(float* y, u64 elements) override { zero_cuda(y, elements, stream_); }
  void matmul(const Matmul& op) override { note(matmul_->matmul(op, stream_)); }
  void weight_gradient(const WeightGradient& op) override { note(matmul_->weight_gradient(op, stream_)); }
  void layer_norm(const LayerNorm& op) override { layer_norm_cuda(op, stream_); }
  void layer_norm_backward(const LayerNormBackward& op) override { layer_norm_backward_cuda(op, stream_); }
  void rms_norm(const RmsNorm& op) override { rms_norm_cuda(op, stream_); }
  void rms_norm_backward(const RmsNormBackward& op) override { rms_norm_backward_cuda(op, stream_); }
  void rotary(const Rotary& op) override { rotary_cuda(op, stream_); }
  void rotary_backward(const RotaryBackward& op) override { rotary_backward_cuda(op, stream_); }
  void attention(const Attention& op) override { attention_cuda(op, stream_); }
  void attention_backward(const AttentionBackward& op) override { attention_backward_cuda(op, stream_); }
  void swiglu(const Swiglu& op) override { swiglu_cuda(op, stream_); }
  void swiglu_backward(const SwigluBackward& op) override { swiglu_backward_cuda(op, stream_); }
  void embedding(const Embedding& op) override { embedding_cuda(op, stream_); }
  void embedding_backward(const EmbeddingBackward& op) override { embedding_backward_cuda(op, stream_); }
  void dropout(const Dropout& dropout, ConstValues x, Values y, u64 elements) override {
    dropout_cuda(dropout, x, y, elements, stream_);
  }
  void cross_entropy_slice(const LogitsSlice& slice) override { cross_entropy_slice_cuda(slice, stream_); }
  void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, double* loss_sum) override {
    cross_entropy_loss_cuda(losses, targets, rows, loss_sum, stream_);
  }
  void cross_entropy_gradient(const LogitsSlice& slice, float scale, const float* loss_scale) override {
    cross_entropy_gradient_cuda(slice, scale, loss_scale, stream_);
  }
  Result<void> take_refusal() override { return std::exchange(refusal_, {}); }
  Result<void> finish() override {
    Result<void> refused = take_refusal();
    TRY_CUDA(cudaGetLastError(), "starting kernels");
    TRY_CUDA(cudaStreamSynchronize(stream_), "waiting for kernels");
    return refused;
  }

 private:
  // The first says most: what follows works on what it did not write.
  void note(Result<void> done) {
    if (!done && refusal_) refusal_ = std::move(done);
  }

  std::unique_ptr<CudaMatmul> matmul_;
  cudaStream_t stream_;
  Result<void> refusal_;
};

}  // namespace

Result<std::unique_ptr<Kernels>> create_cuda_kernels(cudaStream_t stream, std::span<std::byte> workspace) {
  CHECK(workspace.size() >= cuda_kernels_workspace.value, workspace.size());
  TRY_ASSIGN(auto matmul, CudaMatmul::create({.library = workspace.data(),
                                              .scratch = workspace.data() + cuda_library_workspace.value}));
  return std::unique_ptr<Kernels>(std::make_unique<CudaKernels>(std::move(matmul), stream));
}

}  // namespace tidepool
