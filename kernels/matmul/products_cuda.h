// Products computes matrix products with cuBLASLt. It chooses one algorithm per shape and keeps it, so the
// bits depend neither on earlier work nor on addresses. The algorithm is the library's first advice, or, if
// the product is tuned before its first use, the fastest of the first few, by timing.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "kernels/matmul/product_choices.h"
#include "kernels/values.h"

namespace tidepool::cuda {

// One product in the library's column-major layout: d = scale op(a) op(b) + c + bias. Row-major callers swap
// a and b, and read every matrix as its transpose.
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

// REQUIRES: the device that was current at construction is current at every call.
// THREADS: one caller at a time.
class Products {
 public:
  // `workspace`: device memory for exclusive use, in which the library keeps split sums.
  // `choices`: algorithms chosen by timing so far, in this process or another. Null: every product takes the
  // library's first advice.
  // REQUIRES: workspace and choices outlive the products.
  static Result<std::unique_ptr<Products>> create(std::byte* workspace, Bytes bytes,
                                                  ProductChoices* choices = nullptr);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  // Starts the product on the stream. Allocates only at a shape's first call.
  // REQUIRES: a and b have one precision. d has the same precision or fp32; c and bias have that of d.
  // REQUIRES: bias is aligned to 16 bytes, because the library's epilogues need it; windows align tensors so.
  // REQUIRES: bf16 only from sm_80 on.
  // Errors: the library refuses; the error names the product and the status, and d is not written. CUDA's own
  // errors of the stream are not checked here.
  Result<void> run(const Product&, cudaStream_t);

  // tune(true) makes run() tune a shape at its first call, and makes later calls no-ops, until tune(false).
  // An unknown product is timed with each of the library's first algorithms and gets the fastest, if
  // ProductChoices::may_time. A known product runs once, which loads its kernel. Tuning leaves meaningless
  // numbers in d.
  // REQUIRES: `choices` is not null.
  void tune(bool);

 private:
  // Key holds every property on which an algorithm may depend. Alignments are capped at alignment_max, which
  // every workspace has: larger alignments are chance, and would make bits depend on addresses. The key does
  // not tell if c is added: the gradient of a micro-batch must have the same bits whether it is stored or
  // added to earlier gradients. Otherwise the number of devices that share the micro-batches would change
  // numbers.
  struct Key {
    u32 m, n, k, lda, ldb, ldd;
    bool transpose_a, transpose_b, adds_bias;
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
  using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

  Products(cublasLtHandle_t handle, std::byte* workspace, Bytes bytes, ProductChoices* choices)
      : handle_(handle), workspace_(workspace), workspace_bytes_(bytes), choices_(choices) {}
  Result<void> name_library();
  static Key key_of(const Product&);
  std::string name_of(const Key&) const;
  // Fills in the plan without its algorithm.
  static cublasStatus_t describe(Plan&, const Product&, const Key&);
  // RETURNS: at most `count` algorithms that the library advises, best first.
  cublasStatus_t advise(const Plan&, const Key&, int count, Algorithms&) const;
  // Takes the algorithm of a known product.
  // RETURNS: false if the product is unknown, or the library no longer accepts its algorithm.
  bool recall(Plan&, const Key&) const;
  // As recall(), after a call of ProductChoices::before_timing.
  Result<bool> recall_from_others(Plan&, const Key&);
  // Runs the product too.
  Result<void> choose_by_clock(Plan&, const Product&, const Key&, cudaStream_t);
  // Runs the product with each algorithm, which loads its kernel.
  // RETURNS: the algorithms that the library did not refuse.
  Result<Algorithms> start_each(Plan&, const Product&, const Algorithms&, cudaStream_t) const;
  Result<double> seconds_of(const Plan&, const Product&, u32 calls, cudaStream_t) const;
  // RETURNS: the plan of this product. A new plan is made at the first call; if tuning, the product then
  // runs.
  Result<const Plan*> plan_for(const Product&, cudaStream_t);
  cublasStatus_t start(const Plan&, const Product&, cudaStream_t) const;
  // REQUIRES: tuning is on. During steps the choices are read-only, because devices' threads share them.
  ProductChoices& choices_to_write();

  cublasLtHandle_t handle_;
  std::byte* workspace_;
  Bytes workspace_bytes_;
  ProductChoices* choices_;
  std::string library_;  // card, version and workspace, if choices_ is not null
  bool tunes_ = false;
  std::map<Key, Plan> plans_;
};

}  // namespace tidepool::cuda
