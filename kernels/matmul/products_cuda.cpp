#include "kernels/matmul/products_cuda.h"

#include <fmt/format.h>

#include <algorithm>

#include "tidepool/check.h"

namespace tidepool::cuda {
namespace {

constexpr u32 alignment_max = 16;

// The first status that is not success stays.
#define TRY_LIBRARY(call)                                                                     \
  do {                                                                                        \
    if (const cublasStatus_t status = (call); status != CUBLAS_STATUS_SUCCESS) return status; \
  } while (false)

Error library_error(cublasStatus_t status, const Product& p) {
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  return {
      memory ? ErrorKind::does_not_fit : ErrorKind::io,
      fmt::format("cuBLASLt refuses the product {} x {} x {} ({} to {}{}{}{}{}): {}; {}", p.m, p.n, p.k,
                  name(p.a.precision), name(p.d.precision), p.transpose_a ? ", a transposed" : "",
                  p.transpose_b ? ", b transposed" : "", p.c ? ", added" : "", p.bias ? ", bias" : "",
                  cublasLtGetStatusName(status),
                  memory ? "lower memory.device, or end what else uses the GPU"
                         : "check that driver, toolkit and the cuBLAS library belong together; a run that "
                           "had begun goes on from its last checkpoint")};
}

cudaDataType_t type_of(Precision p) {
  switch (p) {
    case Precision::fp32:
      return CUDA_R_32F;
    case Precision::bf16:
      return CUDA_R_16BF;
    case Precision::fp16:
      break;
  }
  return CUDA_R_16F;
}

u32 alignment_of(ConstValues v) {
  const auto address = reinterpret_cast<std::uintptr_t>(v.data);
  return static_cast<u32>(std::min<std::uintptr_t>(alignment_max, address & (~address + 1)));
}

template <class T>
cublasStatus_t set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value);
}
template <class T>
cublasStatus_t set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                   const T& value) {
  return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
}

template <class Owner>
cublasStatus_t make_layout(Owner& owner, Precision precision, u64 rows, u64 columns, u32 ld) {
  cublasLtMatrixLayout_t made = nullptr;
  const cublasStatus_t status = cublasLtMatrixLayoutCreate(&made, type_of(precision), rows, columns, ld);
  owner.reset(made);
  return status;
}

cublasOperation_t operation_of(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

Result<std::unique_ptr<Products>> Products::create(std::byte* workspace, Bytes bytes) {
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = cublasLtCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Error{ErrorKind::internal,
                 fmt::format("cuBLASLt cannot start on this device: {}. Free device memory, and "
                             "check that driver and toolkit belong together",
                             cublasLtGetStatusName(status))};
  }
  return std::unique_ptr<Products>(new Products(handle, workspace, bytes));
}

Products::~Products() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

Products::Key Products::key_of(const Product& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .lda = p.lda,
          .ldb = p.ldb,
          .ldd = p.ldd,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .adds_c = bool(p.c),
          .adds_bias = bool(p.bias),
          .in = p.a.precision,
          .out = p.d.precision,
          .align_a = alignment_of(p.a),
          .align_b = alignment_of(p.b),
          .align_d = p.c ? std::min(alignment_of(p.d), alignment_of(p.c)) : alignment_of(p.d),
          .align_bias = p.bias ? alignment_of(p.bias) : 0};
}

cublasStatus_t Products::describe(Plan& plan, const Product& p, const Key& key) {
  cublasLtMatmulDesc_t operation = nullptr;
  TRY_LIBRARY(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan.operation.reset(operation);
  TRY_LIBRARY(set(operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(p.transpose_a)));
  TRY_LIBRARY(set(operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(p.transpose_b)));
  if (p.bias) {
    TRY_LIBRARY(set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    TRY_LIBRARY(set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.precision)));
    TRY_LIBRARY(set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data));
  }
  TRY_LIBRARY(make_layout(plan.a, key.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda));
  TRY_LIBRARY(make_layout(plan.b, key.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb));
  TRY_LIBRARY(make_layout(plan.d, key.out, p.m, p.n, p.ldd));
  return choose_algorithm(plan, key);
}

cublasStatus_t Products::choose_algorithm(Plan& plan, const Key& key) {
  cublasLtMatmulPreference_t preference = nullptr;
  TRY_LIBRARY(cublasLtMatmulPreferenceCreate(&preference));
  const Owned<cublasLtMatmulPreference_t> owner(preference);
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::size_t{workspace_bytes_.value}));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_a));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_b));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_d));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_d));
  // Parts of a split sum meet in fp32 in the workspace, in a fixed order.
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                  static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  TRY_LIBRARY(cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation.get(), plan.a.get(), plan.b.get(),
                                             plan.d.get(), plan.d.get(), preference, 1, &found, &count));
  if (count != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  plan.algorithm = found.algo;
  return found.state;
}

const Products::Plan* Products::plan_for(const Product& p, cublasStatus_t& status) {
  const Key key = key_of(p);
  if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
  Plan plan;
  status = describe(plan, p, key);
  return status == CUBLAS_STATUS_SUCCESS ? &plans_.emplace(key, std::move(plan)).first->second : nullptr;
}

Result<void> Products::run(const Product& p, cudaStream_t stream) {
  CHECK(p.a.precision == p.b.precision);
  CHECK(p.d.precision == p.a.precision || p.d.precision == Precision::fp32);
  CHECK(!p.c || p.c.precision == p.d.precision);
  CHECK(!p.bias || p.bias.precision == p.d.precision);
  CHECK(!p.bias || alignment_of(p.bias) == alignment_max, alignment_of(p.bias));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const Plan* const plan = plan_for(p, status);
  if (plan != nullptr && p.bias)
    status = set(plan->operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
  if (status != CUBLAS_STATUS_SUCCESS) return library_error(status, p);
  const float beta = p.c ? 1 : 0;
  const void* c = p.c ? p.c.data : p.d.data;
  status = cublasLtMatmul(handle_, plan->operation.get(), &p.scale, p.a.data, plan->a.get(), p.b.data,
                          plan->b.get(), &beta, c, plan->d.get(), p.d.data, plan->d.get(), &plan->algorithm,
                          workspace_, workspace_bytes_.value, stream);
  if (status != CUBLAS_STATUS_SUCCESS) return library_error(status, p);
  return {};
}

}  // namespace tidepool::cuda
