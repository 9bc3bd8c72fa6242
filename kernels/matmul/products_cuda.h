// Matrix products by cuBLASLt. For each shape one algorithm is asked for, once, and kept: whatever runs
// later, and wherever arrays lie, the bits are those of the first time.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <type_traits>

#include "kernels/values.h"
#include "tidepool/result.h"

namespace tidepool::cuda {

// As the library sees it, column-major: d = scale op(a) op(b) + c + bias. Row-major callers swap a and b, and
// read every matrix as its transpose.
struct Product {
  u32 m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  ConstValues a;     // [m, k], or [k, m] if transposed; leading dimension lda
  ConstValues b;     // [k, n], or [n, k]
  ConstValues c;     // [m, n] as d, or none. May be d
  ConstValues bias;  // [m], or none: one number for each row of d
  Values d;          // [m, n]
  u32 lda = 0, ldb = 0, ldd = 0;
  float scale = 1;
};

// Of one device: the one that is set when it is made and when it is used. One caller at a time.
class Products {
 public:
  // `workspace`: device memory that nobody else touches, the library's for split sums. It outlives the
  // products.
  static Result<std::unique_ptr<Products>> create(std::byte* workspace, Bytes bytes);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  // REQUIRES: a and b have one precision; c and bias that of d, which is the same or fp32; bias is aligned to
  // 16 bytes, as windows align tensors and the library's epilogues want it. bf16 from sm_80 on. Takes no
  // memory once a shape is known. Error: the library refuses, with the product and its status; d is then not
  // written. What CUDA itself has to say of the stream is not asked here.
  Result<void> run(const Product&, cudaStream_t);

 private:
  // All that an algorithm may depend on. Alignments are capped at what every workspace has: more of it is
  // chance, and would make bits depend on places.
  struct Key {
    u32 m, n, k, lda, ldb, ldd;
    bool transpose_a, transpose_b, adds_c, adds_bias;
    Precision in, out;
    u32 align_a, align_b, align_d, align_bias;
    auto operator<=>(const Key&) const = default;
  };
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t operation) const { cublasLtMatmulDescDestroy(operation); }
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
    void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
  };
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;
  struct Plan {
    Owned<cublasLtMatmulDesc_t> operation;
    Owned<cublasLtMatrixLayout_t> a, b, d;
    cublasLtMatmulAlgo_t algorithm = {};
  };

  Products(cublasLtHandle_t handle, std::byte* workspace, Bytes bytes)
      : handle_(handle), workspace_(workspace), workspace_bytes_(bytes) {}
  static Key key_of(const Product&);
  // Null, with what went wrong in `status`, where the library refuses.
  const Plan* plan_for(const Product&, cublasStatus_t& status);
  cublasStatus_t describe(Plan&, const Product&, const Key&);
  cublasStatus_t choose_algorithm(Plan&, const Key&);

  cublasLtHandle_t handle_;
  std::byte* workspace_;
  Bytes workspace_bytes_;
  std::map<Key, Plan> plans_;
};

}  // namespace tidepool::cuda
