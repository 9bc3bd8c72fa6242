// Matrix products by cuBLASLt. For each shape one algorithm is asked for, once, and kept: whatever runs
// later, and wherever arrays lie, the bits are those of the first time.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <memory>

#include "kernels/values.h"
#include "tidepool/result.h"

namespace tidepool::cuda {

// As the library sees it, column-major: d = op(a) op(b) + c + bias. Row-major callers swap a and b, and read
// every matrix as its transpose.
struct Product {
  u32 m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  ConstValues a;     // [m, k], or [k, m] if transposed; leading dimension lda
  ConstValues b;     // [k, n], or [n, k]
  ConstValues c;     // [m, n] as d, or none. May be d
  ConstValues bias;  // [m], or none: one number for each row of d
  Values d;          // [m, n]
  u32 lda = 0, ldb = 0, ldd = 0;
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

  // REQUIRES: a and b have one precision; c and bias that of d, which is the same or fp32. bf16 from sm_80
  // on. Takes no memory once a shape is known.
  void run(const Product&, cudaStream_t);

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
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm = {};
  };

  Products(cublasLtHandle_t handle, std::byte* workspace, Bytes bytes)
      : handle_(handle), workspace_(workspace), workspace_bytes_(bytes) {}
  static Key key_of(const Product&);
  const Plan& plan_for(const Product&);
  Plan make_plan(const Product&, const Key&);
  void choose_algorithm(Plan&, const Key&);

  cublasLtHandle_t handle_;
  std::byte* workspace_;
  Bytes workspace_bytes_;
  std::map<Key, Plan> plans_;
};

}  // namespace tidepool::cuda
