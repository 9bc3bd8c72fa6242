// Types behind the emulated library's handles, and the product itself.
#pragma once

#include "cublasLt.h"

struct cublasLtContext {
  int device = 0;
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = ~0u, align_a = 256, align_b = 256, align_c = 256, align_d = 256;
};

namespace emulated_cuda {

// A copy of all arguments of a call, because it runs later.
struct MatmulCall {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  // number of partial sums per result, added at the end: 1 for the first algorithm advised
  std::uint64_t parts;
};

inline std::size_t width_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
std::size_t bytes_of(const cublasLtMatrixLayoutOpaque_t&);

// d = alpha op(a) op(b) + beta c + bias
void run_matmul(const MatmulCall&);

}  // namespace emulated_cuda
