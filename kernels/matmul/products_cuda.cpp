#include "kernels/matmul/products_cuda.h"

#include <algorithm>

#include "tidepool/check.h"

namespace tidepool::cuda {
namespace {

constexpr u32 alignment_max = 16;

// A lost device shows in any call; who started the op asks CUDA for it and names it. All else is our bug.
void check_library(cublasStatus_t status, const Product* product = nullptr) {
  if (status == CUBLAS_STATUS_SUCCESS || cudaPeekAtLastError() != cudaSuccess) return;
  const Product p = product == nullptr ? Product{} : *product;
  CHECK(status == CUBLAS_STATUS_SUCCESS, cublasLtGetStatusName(status), p.m, p.n, p.k, p.transpose_a,
        p.transpose_b, static_cast<u32>(p.a.precision), static_cast<u32>(p.d.precision), bool(p.c),
        bool(p.bias));
}

cudaDataType_t type_of(Precision p) { return p == Precision::fp32 ? CUDA_R_32F : CUDA_R_16BF; }

u32 alignment_of(ConstValues v) {
  const auto address = reinterpret_cast<std::uintptr_t>(v.data);
  return static_cast<u32>(std::min<std::uintptr_t>(alignment_max, address & (~address + 1)));
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_library(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_library(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

cublasLtMatrixLayout_t layout(Precision precision, u64 rows, u64 columns, u32 ld) {
  cublasLtMatrixLayout_t made = nullptr;
  check_library(cublasLtMatrixLayoutCreate(&made, type_of(precision), rows, columns, ld));
  return made;
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
  for (auto& [key, plan] : plans_) {
    cublasLtMatrixLayoutDestroy(plan.a);
    cublasLtMatrixLayoutDestroy(plan.b);
    cublasLtMatrixLayoutDestroy(plan.d);
    cublasLtMatmulDescDestroy(plan.operation);
  }
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

Products::Plan Products::make_plan(const Product& p, const Key& key) {
  Plan plan;
  check_library(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(p.transpose_a));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(p.transpose_b));
  if (p.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.precision));
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
  }
  plan.a = layout(key.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda);
  plan.b = layout(key.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb);
  plan.d = layout(key.out, p.m, p.n, p.ldd);
  choose_algorithm(plan, key);
  return plan;
}

void Products::choose_algorithm(Plan& plan, const Key& key) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::size_t{workspace_bytes_.value});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_d);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_d);
  // Parts of a split sum meet in fp32 in the workspace, in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.a, plan.b,
                                                               plan.d, plan.d, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  const Product shape = {.m = key.m,
                         .n = key.n,
                         .k = key.k,
                         .transpose_a = key.transpose_a,
                         .transpose_b = key.transpose_b,
                         .a = {nullptr, key.in},
                         .d = {nullptr, key.out}};
  check_library(status, &shape);
  check_library(count == 1 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, &shape);
  plan.algorithm = found.algo;
}

const Products::Plan& Products::plan_for(const Product& p) {
  const Key key = key_of(p);
  const auto found = plans_.find(key);
  return found != plans_.end() ? found->second : plans_.emplace(key, make_plan(p, key)).first->second;
}

void Products::run(const Product& p, cudaStream_t stream) {
  CHECK(p.a.precision == p.b.precision);
  CHECK(p.d.precision == p.a.precision || p.d.precision == Precision::fp32);
  CHECK(!p.c || p.c.precision == p.d.precision);
  CHECK(!p.bias || p.bias.precision == p.d.precision);
  const Plan& plan = plan_for(p);
  if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
  const float one = 1, beta = p.c ? 1 : 0;
  const void* c = p.c ? p.c.data : p.d.data;
  check_library(
      cublasLtMatmul(handle_, plan.operation, &one, p.a.data, plan.a, p.b.data, plan.b, &beta, c, plan.d,
                     p.d.data, plan.d, &plan.algorithm, workspace_, workspace_bytes_.value, stream),
      &p);
}

}  // namespace tidepool::cuda
