// Handles of the emulated cuBLASLt, with checks for calls that the library would refuse or misread.
#include <fmt/format.h>

#include <cstring>

#include "emulated_cublaslt.h"
#include "failure.h"
#include "runtime.h"

using namespace emulated_cuda;

namespace {

// The arguments of the heuristic travel in the algorithm and are compared with each call.
struct Chosen {
  std::uint64_t m, n, k;
  std::uint32_t align_a, align_b, align_c, align_d;
  std::uint64_t workspace_bytes;
  std::uint64_t number;  // in Options::algorithms
};
static_assert(sizeof(Chosen) <= sizeof(cublasLtMatmulAlgo_t));

std::uint64_t inner_of(const cublasLtMatmulDescOpaque_t& o, const cublasLtMatrixLayoutOpaque_t& a) {
  return o.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
}

// Checks types against the library's table, and that shapes match.
bool supported(const cublasLtMatmulDescOpaque_t& o, const cublasLtMatrixLayoutOpaque_t& a,
               const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F)) return false;
  if (o.epilogue == CUBLASLT_EPILOGUE_BIAS && (o.bias_type != d.type || o.bias == nullptr)) return false;
  if (a.type == CUDA_R_16BF && runtime().options.major < 8) return false;
  const bool at = o.transpose_a == CUBLAS_OP_T, bt = o.transpose_b == CUBLAS_OP_T;
  return (at ? a.columns : a.rows) == d.rows && (bt ? b.rows : b.columns) == d.columns &&
         (bt ? b.columns : b.rows) == inner_of(o, a);
}

void require_aligned(const void* p, std::uint32_t alignment, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0) {
    fail(fmt::format("cublasLtMatmul: {} is not aligned to the {} bytes that its algorithm was chosen for",
                     what, alignment));
  }
}

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Handle, class Object>
cublasStatus_t make(Handle* handle, Object object) {
  *handle = new Object(object);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

std::size_t cublasLtGetVersion() {
  Lock lock(runtime().mutex);
  return runtime().options.cublaslt_version;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  Lock lock(runtime().mutex);
  *handle = nullptr;
  if (entry_error(lock) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (fires(runtime().faults.device_allocation)) return CUBLAS_STATUS_ALLOC_FAILED;
  return make(handle, cublasLtContext{current_device()});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t, cudaDataType_t) {
  return make(handle, cublasLtMatmulDescOpaque_t{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t o,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(o->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(o->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(o->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(o->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(o->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  if (rows == 0 || columns == 0 || ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return make(handle, cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return make(handle, cublasLtMatmulPreferenceOpaque_t{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(p->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(p->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return assign(p->align_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return assign(p->align_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return assign(p->align_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(p->align_d, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t o,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (wanted < 1 || !supported(*o, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Lock lock(runtime().mutex);
  if (fires(runtime().faults.algorithm)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Chosen chosen = {d->rows,    d->columns, inner_of(*o, *a),   p->align_a, p->align_b,
                   p->align_c, p->align_d, p->workspace_bytes, 0};
  for (const std::uint64_t count = runtime().options.algorithms.size();
       chosen.number < count && *found < wanted; ++chosen.number) {
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    std::memcpy(&result.algo, &chosen, sizeof chosen);
    result.workspaceSize = p->workspace_bytes;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (!supported(*o, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Lock lock(runtime().mutex);
  if (chosen.m != d->rows || chosen.n != d->columns || chosen.k != inner_of(*o, *a) ||
      chosen.number >= runtime().options.algorithms.size())
    return CUBLAS_STATUS_INVALID_VALUE;
  *result = {.algo = *algorithm,
             .workspaceSize = chosen.workspace_bytes,
             .state = CUBLAS_STATUS_SUCCESS,
             .wavesCount = 0,
             .reserved = {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t o, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (!supported(*o, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (chosen.m != d_layout->rows || chosen.n != d_layout->columns || chosen.k != inner_of(*o, *a_layout) ||
      workspace_bytes < chosen.workspace_bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  require_device_memory(a, bytes_of(*a_layout), "cublasLtMatmul's a");
  require_device_memory(b, bytes_of(*b_layout), "cublasLtMatmul's b");
  require_device_memory(c, bytes_of(*d_layout), "cublasLtMatmul's c");
  require_device_memory(d, bytes_of(*d_layout), "cublasLtMatmul's d");
  if (workspace_bytes > 0) require_device_memory(workspace, workspace_bytes, "cublasLtMatmul's workspace");
  if (o->epilogue == CUBLASLT_EPILOGUE_BIAS) {
    require_device_memory(o->bias, d_layout->rows * width_of(o->bias_type), "cublasLtMatmul's bias");
  }
  require_aligned(a, chosen.align_a, "a");
  require_aligned(b, chosen.align_b, "b");
  require_aligned(c, chosen.align_c, "c");
  require_aligned(d, chosen.align_d, "d");
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock, stream); error != cudaSuccess) {
    return returned(error), CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (fires(r.faults.product)) return CUBLAS_STATUS_INTERNAL_ERROR;
  const unsigned operations = r.options.algorithms.at(chosen.number);
  if (operations == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  require_stream(stream);
  if (handle->device != stream->device)
    fail("cublasLtMatmul: a handle of one device and a stream of another");
  r.calls.push_back({.kind = CallKind::matmul,
                     .device = stream->device,
                     .stream = stream->number,
                     .to = d,
                     .from = a,
                     .algorithm = chosen.number});
  const MatmulCall call = {*o,
                           *a_layout,
                           *b_layout,
                           *d_layout,
                           a,
                           b,
                           c,
                           d,
                           *static_cast<const float*>(alpha),
                           *static_cast<const float*>(beta),
                           chosen.number + 1};
  const auto work = [call] {
    run_matmul(call);
    check_red_zones();
  };
  enqueue(lock, stream, work, operations);
  return CUBLAS_STATUS_SUCCESS;
}
