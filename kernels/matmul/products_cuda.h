// Matrix products by cuBLASLt. For each shape one algorithm is chosen, once, and kept: whatever runs later,
// and wherever arrays lie, the bits are those of the first time. The choice is the library's first advice,
// or, where the product is tuned before its first use, the fastest of its first few, by a clock.
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

// Products of one device: the one that is current when they are made and used.
// THREADS: one caller at a time.
class Products {
 public:
  // `workspace`: device memory that nobody else touches, the library's for split sums. It outlives the
  // products, as do `choices`: what was chosen by a clock before, here or in another process. Null: the
  // library's first advice is taken.
  static Result<std::unique_ptr<Products>> create(std::byte* workspace, Bytes bytes,
                                                  ProductChoices* choices = nullptr);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  // REQUIRES: a and b have one precision; c and bias that of d, which is the same or fp32; bias is aligned to
  // 16 bytes, as windows align tensors and the library's epilogues want it. bf16 from sm_80 on. Takes no
  // memory once a shape is known. Error: the library refuses, with the product and its status; d is then not
  // written. What CUDA itself has to say of the stream is not asked here.
  Result<void> run(const Product&, cudaStream_t);

  // Until it is called with false, run() tunes a shape at its first call and does nothing at later ones. A
  // product that is not known is run by each of the library's first algorithms, several times, and the
  // fastest is chosen, if `choices` allow it; any other runs once, which loads its kernel. Afterwards d holds
  // numbers that mean nothing. REQUIRES: `choices` were given.
  void tune(bool);

 private:
  // All that an algorithm may depend on. Alignments are capped at what every workspace has: more of it is
  // chance, and would make bits depend on places. Whether c is added is not part of it: a gradient must have
  // the same bits as a micro-batch's first and as one that is added to it, or the number of devices that
  // share the micro-batches would change numbers.
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
  // With no algorithm yet.
  static cublasStatus_t describe(Plan&, const Product&, const Key&);
  // RETURNS: at most `count` algorithms that the library advises, best first.
  cublasStatus_t advise(const Plan&, const Key&, int count, Algorithms&) const;
  // RETURNS: true if a choice is known that the library still takes.
  bool recall(Plan&, const Key&) const;
  // Likewise, after other runs were asked what they have timed meanwhile.
  Result<bool> recall_from_others(Plan&, const Key&);
  // Runs it too.
  Result<void> choose_by_clock(Plan&, const Product&, const Key&, cudaStream_t);
  // Those of the algorithms that the library takes when they are started. Each start loads a kernel.
  Result<Algorithms> start_each(Plan&, const Product&, const Algorithms&, cudaStream_t) const;
  Result<double> seconds_of(const Plan&, const Product&, u32 calls, cudaStream_t) const;
  // The plan of this product, made if need be, and then also run while tuning.
  Result<const Plan*> plan_for(const Product&, cudaStream_t);
  cublasStatus_t start(const Plan&, const Product&, cudaStream_t) const;
  // REQUIRES: tuning. In steps, threads of several devices share the choices.
  ProductChoices& choices_to_write();

  cublasLtHandle_t handle_;
  std::byte* workspace_;
  Bytes workspace_bytes_;
  ProductChoices* choices_;
  std::string library_;  // card and version, where there are choices
  bool tunes_ = false;
  std::map<Key, Plan> plans_;
};

}  // namespace tidepool::cuda
