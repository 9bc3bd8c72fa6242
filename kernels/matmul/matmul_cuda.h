// CudaMatmul computes the matrix products of kernels/matmul/matmul.h on a device.
#pragma once

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_workspace.h"
#include "kernels/matmul/products_cuda.h"

namespace tidepool {

struct CudaMatmulWorkspace {
  std::byte* library = nullptr;
  Bytes library_bytes = cuda_library_workspace;
  std::byte* scratch = nullptr;
  Bytes scratch_bytes = cuda_matmul_scratch;
};

// THREADS: one caller and one stream at a time, because of the scratch.
class CudaMatmul {
 public:
  // REQUIRES: the workspace is device memory, aligned to 256 bytes; workspace and `choices` (Products)
  // outlive this.
  static Result<std::unique_ptr<CudaMatmul>> create(const CudaMatmulWorkspace&,
                                                    ProductChoices* choices = nullptr);

  // Activations have one precision, but y may be fp32. Parameters in another precision are converted slice by
  // slice.
  // Errors: the library refuses; the result is then unfinished.
  Result<void> matmul(const Matmul&, cudaStream_t);
  // If one of x and dy is fp32, the other is converted to fp32, slice by slice, and the product is one of
  // fp32: for small products, such as a router's.
  Result<void> weight_gradient(const WeightGradient&, cudaStream_t);

  // As Products: while tuning, results are meaningless numbers.
  void tune(bool on) {
    tunes_ = on;
    products_->tune(on);
  }

 private:
  CudaMatmul(std::unique_ptr<cuda::Products> products, std::byte* scratch, Bytes bytes)
      : products_(std::move(products)), scratch_(scratch), scratch_bytes_(bytes) {}
  Result<void> product(const Matmul&, ConstValues c, Values out, cudaStream_t);
  Result<void> column_slice(const Matmul&, u32 begin, u32 columns, ConstValues c, Values out, cudaStream_t);
  Result<void> residual_with_dropout(const Matmul&, cudaStream_t);
  Result<void> gradient_product(const WeightGradient&, cudaStream_t);
  // Weights in another precision use the first half of the scratch, products before their dropout the second
  // half.
  u64 scratch_half_bytes() const { return scratch_bytes_.value / 2 / scratch_alignment * scratch_alignment; }

  static constexpr u64 scratch_alignment = 256;

  std::unique_ptr<cuda::Products> products_;
  std::byte* scratch_;
  Bytes scratch_bytes_;
  bool tunes_ = false;
};

}  // namespace tidepool
