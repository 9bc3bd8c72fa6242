// Products keeps one algorithm per shape: recalled from earlier runs, timed, or the library's first advice.
#include "kernels/matmul/products_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

constexpr u32 alignment_max = 16;

// ---- choosing by timing

constexpr int advised_max = 8;  // algorithms of the library that are timed
constexpr u32 timed_rounds = 3;
constexpr double timed_seconds = 2e-3, timed_calls_max = 50;  // per algorithm and round
constexpr double long_seconds = 10e-3;  // a product that takes longer is timed once more, not in all rounds
constexpr double hopeless = 1.5;        // an algorithm this much slower than the fastest is not timed again
// Above this fraction of the first advice's time, a gain may be chance: then the first advice is taken.
constexpr double worth_it = 0.98;
constexpr const char* timing = "timing a matrix product";

class OwnedEvent {
 public:
  static Result<OwnedEvent> create() {
    OwnedEvent made;
    TRY_CUDA(cudaEventCreateWithFlags(&made.event_, cudaEventDefault), timing);
    return made;
  }
  OwnedEvent(OwnedEvent&& o) noexcept : event_(std::exchange(o.event_, nullptr)) {}
  ~OwnedEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  OwnedEvent() = default;
  cudaEvent_t event_ = nullptr;
};

// An algorithm is plain data. The library promises that the same version accepts the data again
// (cublasLtMatmulAlgo_t in its manual).
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const u64 word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algorithm_of(std::string_view text) {
  cublasLtMatmulAlgo_t algorithm = {};
  constexpr u64 digits = 16;
  if (text.size() != digits * std::size(algorithm.data)) return {};
  for (auto& word : algorithm.data) {
    u64 value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value, 16);
    if (error != std::errc() || end != text.data() + digits) return {};
    word = value;
    text.remove_prefix(digits);
  }
  return algorithm;
}

// Returns the first status that is not success from the calling function.
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
                  memory ? "lower memory.device, or end other programs on the GPU"
                         : "check that driver, toolkit and the cuBLAS library belong together; resume a run "
                           "that had begun from its last checkpoint")};
}

// RETURNS: true if the library refuses this algorithm. Any other failure is one of the device or its memory.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
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

Result<std::unique_ptr<Products>> Products::create(std::byte* workspace, Bytes bytes,
                                                   ProductChoices* choices) {
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = cublasLtCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Error{ErrorKind::internal,
                 fmt::format("cuBLASLt cannot start on this device: {}. Free device memory, and "
                             "check that driver and toolkit belong together",
                             cublasLtGetStatusName(status))};
  }
  std::unique_ptr<Products> products(new Products(handle, workspace, bytes, choices));
  if (choices != nullptr) TRY(products->name_library());
  return products;
}

// Names what a choice depends on beside the product: the card, the library and the size of the workspace.
Result<void> Products::name_library() {
  int device = 0;
  cudaDeviceProp card = {};
  TRY_CUDA(cudaGetDevice(&device), "asking for the current GPU");
  TRY_CUDA(cudaGetDeviceProperties(&card, device), "asking for the GPU's name");
  library_ =
      fmt::format("{} ({} SMs, sm_{}{}), cuBLASLt {}, workspace {}", card.name, card.multiProcessorCount,
                  card.major, card.minor, cublasLtGetVersion(), workspace_bytes_.value);
  return {};
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
          .adds_bias = bool(p.bias),
          .in = p.a.precision,
          .out = p.d.precision,
          .align_a = alignment_of(p.a),
          .align_b = alignment_of(p.b),
          .align_d = p.c ? std::min(alignment_of(p.d), alignment_of(p.c)) : alignment_of(p.d),
          .align_bias = p.bias ? alignment_of(p.bias) : 0};
}

std::string Products::name_of(const Key& k) const {
  return fmt::format("{}: {} x {} x {}, ld {} {} {}, {}{}{}, {} to {}, aligned {} {} {} {}", library_, k.m,
                     k.n, k.k, k.lda, k.ldb, k.ldd, k.transpose_a ? "T" : "N", k.transpose_b ? "T" : "N",
                     k.adds_bias ? " + bias" : "", name(k.in), name(k.out), k.align_a, k.align_b, k.align_d,
                     k.align_bias);
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
  return make_layout(plan.d, key.out, p.m, p.n, p.ldd);
}

cublasStatus_t Products::advise(const Plan& plan, const Key& key, int count, Algorithms& advised) const {
  cublasLtMatmulPreference_t preference = nullptr;
  TRY_LIBRARY(cublasLtMatmulPreferenceCreate(&preference));
  const Owned<cublasLtMatmulPreference_t> owner(preference);
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::size_t{workspace_bytes_.value}));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_a));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_b));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_d));
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_d));
  // Parts of a split sum are added in fp32 in the workspace, in a fixed order.
  TRY_LIBRARY(set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                  static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<u64>(count));
  TRY_LIBRARY(cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation.get(), plan.a.get(), plan.b.get(),
                                             plan.d.get(), plan.d.get(), preference, count, found.data(),
                                             &count));
  found.resize(static_cast<u64>(count));
  for (const cublasLtMatmulHeuristicResult_t& one : found)
    if (one.state == CUBLAS_STATUS_SUCCESS) advised.push_back(one.algo);
  if (!advised.empty()) return CUBLAS_STATUS_SUCCESS;
  return found.empty() ? CUBLAS_STATUS_NOT_SUPPORTED : found.front().state;
}

bool Products::recall(Plan& plan, const Key& key) const {
  if (choices_ == nullptr) return false;
  const auto found = choices_->known.find(name_of(key));
  if (found == choices_->known.end()) return false;
  const std::optional<cublasLtMatmulAlgo_t> algorithm = algorithm_of(found->second);
  if (!algorithm) return false;
  cublasLtMatmulHeuristicResult_t checked = {};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                              plan.d.get(), &*algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > workspace_bytes_.value) return false;
  plan.algorithm = *algorithm;
  return true;
}

Result<bool> Products::recall_from_others(Plan& plan, const Key& key) {
  if (!choices_->may_time || !choices_->before_timing) return false;
  const auto before_timing = std::exchange(choices_to_write().before_timing, nullptr);
  TRY(before_timing());
  return recall(plan, key);
}

Result<double> Products::seconds_of(const Plan& plan, const Product& p, u32 calls,
                                    cudaStream_t stream) const {
  TRY_ASSIGN(const OwnedEvent begin, OwnedEvent::create());
  TRY_ASSIGN(const OwnedEvent end, OwnedEvent::create());
  TRY_CUDA(cudaEventRecord(begin.get(), stream), timing);
  for (u32 i = 0; i < calls; ++i)
    if (const cublasStatus_t status = start(plan, p, stream); status != CUBLAS_STATUS_SUCCESS)
      return library_error(status, p);
  TRY_CUDA(cudaEventRecord(end.get(), stream), timing);
  TRY_CUDA(cudaEventSynchronize(end.get()), timing);
  float milliseconds = 0;
  TRY_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), timing);
  return milliseconds * 1e-3 / calls;
}

Result<Products::Algorithms> Products::start_each(Plan& plan, const Product& p, const Algorithms& advised,
                                                  cudaStream_t stream) const {
  Algorithms taken;
  for (const cublasLtMatmulAlgo_t& algorithm : advised) {
    plan.algorithm = algorithm;
    const cublasStatus_t status = start(plan, p, stream);
    if (status == CUBLAS_STATUS_SUCCESS)
      taken.push_back(algorithm);
    else if (is_refusal(status))
      cudaGetLastError();  // clears the refusal's error, or later calls would report it
    else
      return library_error(status, p);
  }
  if (taken.empty()) return library_error(CUBLAS_STATUS_NOT_SUPPORTED, p);
  return taken;
}

// Times the algorithms in turns, so that a rising clock of the GPU favours none. An algorithm's shortest time
// counts.
Result<void> Products::choose_by_clock(Plan& plan, const Product& p, const Key& key, cudaStream_t stream) {
  Algorithms advised;
  if (const cublasStatus_t status = advise(plan, key, advised_max, advised); status != CUBLAS_STATUS_SUCCESS)
    return library_error(status, p);
  TRY_ASSIGN(const Algorithms taken, start_each(plan, p, advised, stream));
  std::vector<double> seconds(taken.size(), std::numeric_limits<double>::infinity());
  double fastest = std::numeric_limits<double>::infinity();
  const auto time = [&](u64 i, double calls) -> Result<void> {
    plan.algorithm = taken[i];
    TRY_ASSIGN(const double took, seconds_of(plan, p, static_cast<u32>(calls), stream));
    seconds[i] = std::min(seconds[i], took);
    fastest = std::min(fastest, took);
    return {};
  };
  for (u64 i = 0; i < taken.size(); ++i) TRY(time(i, 1));
  const double calls = std::clamp(timed_seconds / std::max(fastest, 1e-9), 1.0, timed_calls_max);
  const u32 rounds = fastest > long_seconds ? 1 : timed_rounds;
  for (u32 round = 0; round < rounds; ++round) {
    for (u64 i = 0; i < taken.size(); ++i)
      if (seconds[i] <= hopeless * fastest) TRY(time(i, calls));
  }
  const bool pays = fastest < worth_it * seconds.front();
  plan.algorithm = taken[pays ? static_cast<u64>(std::ranges::find(seconds, fastest) - seconds.begin()) : 0];
  const std::string product = name_of(key), algorithm = text_of(plan.algorithm);
  choices_to_write().timed.insert_or_assign(product, algorithm);
  choices_to_write().known.insert_or_assign(product, algorithm);
  return {};
}

ProductChoices& Products::choices_to_write() {
  CHECK(tunes_);
  return *choices_;
}

Result<const Products::Plan*> Products::plan_for(const Product& p, cudaStream_t stream) {
  const Key key = key_of(p);
  if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
  Plan plan;
  if (const cublasStatus_t status = describe(plan, p, key); status != CUBLAS_STATUS_SUCCESS)
    return library_error(status, p);
  bool known = recall(plan, key);
  if (!known && tunes_) {
    TRY_ASSIGN(known, recall_from_others(plan, key));
  }
  if (!known && tunes_ && choices_->may_time) {
    TRY(choose_by_clock(plan, p, key, stream));
  } else {
    Algorithms advised;
    if (!known) {
      if (const cublasStatus_t status = advise(plan, key, 1, advised); status != CUBLAS_STATUS_SUCCESS)
        return library_error(status, p);
      plan.algorithm = advised.front();
    }
    if (tunes_) TRY(seconds_of(plan, p, 1, stream));
  }
  if (tunes_) choices_to_write().used.insert_or_assign(name_of(key), text_of(plan.algorithm));
  return &plans_.emplace(key, std::move(plan)).first->second;
}

cublasStatus_t Products::start(const Plan& plan, const Product& p, cudaStream_t stream) const {
  if (p.bias) TRY_LIBRARY(set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data));
  const float beta = p.c ? 1 : 0;
  const void* c = p.c ? p.c.data : p.d.data;
  return cublasLtMatmul(handle_, plan.operation.get(), &p.scale, p.a.data, plan.a.get(), p.b.data,
                        plan.b.get(), &beta, c, plan.d.get(), p.d.data, plan.d.get(), &plan.algorithm,
                        workspace_, workspace_bytes_.value, stream);
}

void Products::tune(bool on) {
  CHECK(choices_ != nullptr);
  tunes_ = on;
}

Result<void> Products::run(const Product& p, cudaStream_t stream) {
  CHECK(p.a.precision == p.b.precision);
  CHECK(p.d.precision == p.a.precision || p.d.precision == Precision::fp32);
  CHECK(!p.c || p.c.precision == p.d.precision);
  CHECK(!p.bias || p.bias.precision == p.d.precision);
  CHECK(!p.bias || alignment_of(p.bias) == alignment_max, alignment_of(p.bias));
  TRY_ASSIGN(const Plan* const plan, plan_for(p, stream));
  if (tunes_) return {};
  const cublasStatus_t status = start(*plan, p, stream);
  return status == CUBLAS_STATUS_SUCCESS ? Result<void>() : library_error(status, p);
}

}  // namespace tidepool::cuda
