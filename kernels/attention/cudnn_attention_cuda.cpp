#include "kernels/attention/cudnn_attention_cuda.h"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention/cudnn_attention_graph_cuda.h"

namespace tidepool::cuda {
namespace {

using Argument = cudnn::Plan::Argument;

Argument argument(AttentionUid uid, const void* data) {
  return {.uid = static_cast<i64>(uid), .data = const_cast<void*>(data)};
}

// The part of the batch that a slice begins with, and the parts of it that follow, each at most a slice.
template <class Fn>
Result<void> for_slices(const AttentionShape& s, const AttentionSlice& slice, Fn fn) {
  for (u32 sequence = 0; sequence < s.sequences; sequence += slice.sequences) {
    for (u32 head = 0; head < s.key_heads(); head += slice.kv_heads) {
      const AttentionSlice part = {std::min(slice.sequences, s.sequences - sequence),
                                   std::min(slice.kv_heads, s.key_heads() - head)};
      TRY(fn(AttentionSlice{sequence, head}, part));
    }
  }
  return {};
}

// Elements from an array's begin to a slice's that begins at `at`.
struct Offsets {
  u64 q, k, v, out, rows;

  Offsets(const AttentionShape& s, const AttentionSlice& at) {
    const u64 token = u64{at.sequences} * s.tokens, head = u64{at.kv_heads} * s.group();
    const u64 of_keys = token * s.qkv_columns() + u64{at.kv_heads} * s.head_size;
    q = token * s.qkv_columns() + head * s.head_size;
    k = of_keys + s.hidden();
    v = k + s.key_columns();
    out = token * s.hidden() + head * s.head_size;
    rows = (u64{at.sequences} * s.heads + head) * s.tokens;
  }
};

// What plans read from the host's memory while they are started.
struct Numbers {
  float scale, minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;

  explicit Numbers(const AttentionShape& s) : scale(1.0F / std::sqrt(static_cast<float>(s.head_size))) {}
};

// One document for each sequence, and nothing dropped: what the graphs say.
template <class Operation>
bool is_plain(const Operation& op) {
  return op.starts == nullptr && !op.dropout.on();
}

constexpr Bytes workspace_of_plans{cudnn_attention_slack};

// By its memory: no more than there is, and of backward not less than ds. The library does not say which
// plans add up in any order (of cuDNN 9.19's, none has that note); one that keeps ds has no need to.
bool is_as_expected(Bytes workspace, const AttentionShape& s, const AttentionSlice& slice, bool is_backward) {
  if (!is_backward) return workspace <= workspace_of_plans;
  return workspace.value >= cudnn_ds_bytes(s, slice) &&
         workspace.value <= cudnn_backward_bytes(s, slice) - cudnn_softmax_sum_bytes(s, slice);
}

}  // namespace

Result<std::unique_ptr<CudnnAttention>> CudnnAttention::create(std::unique_ptr<cudnn::Library> library,
                                                               int capability,
                                                               std::span<std::byte> workspace) {
  int device = 0;
  cudaGetDevice(&device);
  TRY_ASSIGN(cudnn::DeviceProperties properties, cudnn::DeviceProperties::of_device(*library, device));
  cudnnContext* context = nullptr;
  if (const int status = library->calls().create(&context); status != cudnn::success)
    return library->error(status, "starting on cuda:" + std::to_string(device));
  return std::unique_ptr<CudnnAttention>(
      new CudnnAttention(std::move(library), std::move(properties), context, capability, workspace));
}

CudnnAttention::~CudnnAttention() {
  plans_.clear();
  library_->calls().destroy(context_);
}

Result<const cudnn::Plan*> CudnnAttention::plan_for(const AttentionShape& s, const AttentionSlice& slice,
                                                    Precision precision, bool is_backward) {
  const Key key = {.is_backward = is_backward,
                   .precision = precision,
                   .tokens = s.tokens,
                   .heads = s.heads,
                   .kv_heads = s.key_heads(),
                   .head_size = s.head_size,
                   .slice_sequences = slice.sequences,
                   .slice_kv_heads = slice.kv_heads};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();
  TRY_ASSIGN(std::unique_ptr<cudnn::Plan> plan,
             cudnn::Plan::create(*library_, device_,
                                 is_backward ? cudnn_attention_backward(*library_, s, slice, precision)
                                             : cudnn_attention_forward(*library_, s, slice, precision)));
  if (plan && !is_as_expected(plan->workspace(), s, slice, is_backward)) plan = nullptr;
  return plans_.emplace(key, std::move(plan)).first->second.get();
}

Result<bool> CudnnAttention::has_plans(const AttentionShape& s, const AttentionSlice& slice,
                                       Precision precision, bool is_backward) {
  if (slice.sequences == 0) return false;
  bool all = true;
  TRY(for_slices(s, slice, [&](const AttentionSlice&, const AttentionSlice& part) -> Result<void> {
    TRY_ASSIGN(const cudnn::Plan* const plan, plan_for(s, part, precision, is_backward));
    all = all && plan != nullptr;
    return {};
  }));
  return all;
}

Result<void> CudnnAttention::prepare(const AttentionShape& s, Precision precision, Bytes scratch) {
  if (!cudnn_attention_pays(s, precision, capability_)) return {};
  TRY(has_plans(s, cudnn_forward_slice(s, Bytes{workspace_.size()}), precision, false));
  TRY(has_plans(s, cudnn_backward_slice(s, scratch), precision, true));
  return {};
}

Result<bool> CudnnAttention::forward(const Attention& op, cudaStream_t stream) {
  if (!is_plain(op) || !cudnn_attention_pays(op.shape, op.qkv.precision, capability_)) return false;
  const AttentionSlice slice = cudnn_forward_slice(op.shape, Bytes{workspace_.size()});
  TRY_ASSIGN(const bool there, has_plans(op.shape, slice, op.qkv.precision, false));
  if (!there) return false;
  library_->calls().set_stream(context_, stream);
  TRY(for_slices(op.shape, slice, [&](const AttentionSlice& at, const AttentionSlice& part) {
    return run_forward(op, at, part);
  }));
  return true;
}

// The logarithms are made whether anybody wants them or not: without them it would be another plan, whose
// bits might differ, and what is kept for backward must not change numbers.
Result<void> CudnnAttention::run_forward(const Attention& op, const AttentionSlice& at,
                                         const AttentionSlice& part) {
  const AttentionShape& s = op.shape;
  const Offsets from(s, at);
  const Numbers numbers(s);
  TRY_ASSIGN(const cudnn::Plan* const plan, plan_for(s, part, op.qkv.precision, false));
  float* const unwanted = reinterpret_cast<float*>(workspace_.data() + workspace_of_plans.value);
  const std::array arguments = {
      argument(AttentionUid::q, op.qkv.at(from.q).data),
      argument(AttentionUid::k, op.qkv.at(from.k).data),
      argument(AttentionUid::v, op.qkv.at(from.v).data),
      argument(AttentionUid::out, op.out.at(from.out).data),
      argument(AttentionUid::lse, op.lse != nullptr ? op.lse + from.rows : unwanted),
      argument(AttentionUid::scale, &numbers.scale),
      argument(AttentionUid::minus_infinity, &numbers.minus_infinity)};
  const int status = plan->execute(context_, arguments, workspace_.data());
  if (status != cudnn::success) return library_->error(status, "attention");
  return {};
}

Result<bool> CudnnAttention::backward(const AttentionBackward& op, cudaStream_t stream) {
  if (!is_plain(op) || !cudnn_attention_pays(op.shape, op.qkv.precision, capability_)) return false;
  const AttentionSlice slice = cudnn_backward_slice(op.shape, Bytes{op.scratch.size()});
  TRY_ASSIGN(const bool there, has_plans(op.shape, slice, op.qkv.precision, true));
  if (!there) return false;
  library_->calls().set_stream(context_, stream);
  TRY(for_slices(op.shape, slice, [&](const AttentionSlice& at, const AttentionSlice& part) {
    return run_backward(op, at, part);
  }));
  return true;
}

Result<void> CudnnAttention::run_backward(const AttentionBackward& op, const AttentionSlice& at,
                                          const AttentionSlice& part) {
  const AttentionShape& s = op.shape;
  const Offsets from(s, at);
  const Numbers numbers(s);
  TRY_ASSIGN(const cudnn::Plan* const plan, plan_for(s, part, op.qkv.precision, true));
  std::byte* const scratch =
      op.scratch.data() + (0 - reinterpret_cast<std::uintptr_t>(op.scratch.data())) % cudnn_scratch_alignment;
  const std::array arguments = {argument(AttentionUid::q, op.qkv.at(from.q).data),
                                argument(AttentionUid::k, op.qkv.at(from.k).data),
                                argument(AttentionUid::v, op.qkv.at(from.v).data),
                                argument(AttentionUid::out, op.out.at(from.out).data),
                                argument(AttentionUid::lse, op.lse + from.rows),
                                argument(AttentionUid::dout, op.dout.at(from.out).data),
                                argument(AttentionUid::dq, op.dqkv.at(from.q).data),
                                argument(AttentionUid::dk, op.dqkv.at(from.k).data),
                                argument(AttentionUid::dv, op.dqkv.at(from.v).data),
                                argument(AttentionUid::softmax_sum, scratch),
                                argument(AttentionUid::scale, &numbers.scale),
                                argument(AttentionUid::minus_infinity, &numbers.minus_infinity),
                                argument(AttentionUid::one, &numbers.one)};
  const int status = plan->execute(context_, arguments, scratch + cudnn_softmax_sum_bytes(s, part));
  if (status != cudnn::success) return library_->error(status, "attention's backward");
  return {};
}

}  // namespace tidepool::cuda
