// CudnnAttention runs cuDNN's plans slice by slice, and our own kernels where a plan failed its trial.
#include "kernels/attention/cudnn_attention_cuda.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <set>
#include <utility>

#include "kernels/attention/cudnn_attention_graph_cuda.h"
#include "kernels/attention/cudnn_attention_trial_cuda.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

using Argument = cudnn::Plan::Argument;

Argument argument(AttentionUid uid, const void* data) {
  return {.uid = static_cast<i64>(uid), .data = const_cast<void*>(data)};
}

// Calls fn for each slice of the batch; slices at the ends may be smaller.
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

// Offsets in elements from an array's begin to the slice that begins at `at`.
struct Offsets {
  u64 q, k, v, out, rows;

  Offsets(const AttentionShape& s, const AttentionSlice& at) {
    const u64 token = u64{at.sequences} * s.tokens, head = u64{at.kv_heads} * s.group();
    const u64 of_keys = token * s.qkv_columns() + u64{at.kv_heads} * s.head_size;
    q = token * s.qkv_columns() + head * s.head_size;
    k = of_keys + s.query_columns();
    v = k + s.key_columns();
    out = token * s.out_columns() + head * s.head_size;
    rows = (u64{at.sequences} * s.heads + head) * s.tokens;
  }
};

// Numbers in host memory that plans read when they are started.
struct Numbers {
  float scale, minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;

  explicit Numbers(const AttentionShape& s) : scale(s.scale()) {}
};

// RETURNS: true if each sequence is one document, without dropout, window, sinks and cap, and v is as
// wide as k, as in the graphs.
template <class Operation>
bool is_plain(const Operation& op) {
  return op.starts == nullptr && !op.dropout.on() && op.shape.window == 0 && !op.sinks && op.shape.cap == 0 &&
         op.shape.value_head_size() == op.shape.head_size;
}

// Bytes for logarithms that the caller does not keep; they lie at the workspace's end.
u64 bytes_of_unwanted(const AttentionShape& s, const AttentionSlice& slice) {
  return round_up(u64{slice.sequences} * s.heads * s.tokens * sizeof(float), 256);
}

// RETURNS: scratch memory available to a plan of backward.
Bytes room_for_backward(const AttentionToCome& to_come, const AttentionSlice& slice) {
  const u64 taken = cudnn_scratch_alignment + cudnn_softmax_sum_bytes(to_come.shape, slice);
  return to_come.scratch.value > taken ? Bytes{to_come.scratch.value - taken} : Bytes{0};
}

}  // namespace

Result<std::unique_ptr<CudnnAttention>> CudnnAttention::create(Parts parts) {
  const cudnn::Library& library = *parts.library;
  int device = 0;
  TRY_CUDA(cudaGetDevice(&device), "asking which GPU is used");
  TRY_ASSIGN(cudnn::DeviceProperties properties, cudnn::DeviceProperties::of_device(library, device));
  cudnnContext* context = nullptr;
  if (const int status = library.calls().create(&context); status != cudnn::success)
    return library.error(status, "starting on cuda:" + std::to_string(device));
  std::unique_ptr<CudnnAttention> made(new CudnnAttention(std::move(parts), std::move(properties), context));
  if (const int status = library.calls().set_stream(context, made->parts_.stream); status != cudnn::success)
    return library.error(status, "starting on cuda:" + std::to_string(device));
  const AttentionToCome& to_come = made->parts_.shape;
  TRY(made->make_plans(made->forward_,
                       cudnn_forward_slice(to_come.shape, Bytes{made->parts_.workspace.size()}), false));
  if (to_come.has_backward)
    TRY(made->make_plans(made->backward_, cudnn_backward_slice(to_come.shape, to_come.scratch), true));
  TRY(made->try_plans());
  return made;
}

// Tries every plan. A pass with a failing plan uses our own kernels.
Result<void> CudnnAttention::try_plans() {
  AttentionTrial trial({.to_come = parts_.shape, .stream = parts_.stream, .room = parts_.trial});
  std::string why;
  for (const auto& [part, plan] : forward_.plans) {
    const auto run = [&, slice = part](const Attention& op) { return run_forward(op, {}, slice); };
    TRY_ASSIGN(why, trial.forward(part, run));
    if (!why.empty()) break;
  }
  if (!why.empty()) forward_.give_up(std::exchange(why, {}));
  for (const auto& [part, plan] : backward_.plans) {
    const auto run = [&, slice = part](const AttentionBackward& op) { return run_backward(op, {}, slice); };
    TRY_ASSIGN(why, trial.backward(part, run));
    if (!why.empty()) break;
  }
  if (!why.empty()) backward_.give_up(std::move(why));
  return {};
}

CudnnAttention::~CudnnAttention() {
  forward_.plans.clear();
  backward_.plans.clear();
  parts_.library->calls().destroy(context_);
}

// RETURNS: null, with the reason in `why_not`, if our own kernels are to be used.
Result<std::unique_ptr<cudnn::Plan>> CudnnAttention::make_plan(const AttentionSlice& part, bool is_backward,
                                                               std::string& why_not) const {
  const cudnn::Library& library = *parts_.library;
  const Precision precision = parts_.shape.precision;
  TRY_ASSIGN(std::unique_ptr<cudnn::Plan> plan,
             cudnn::Plan::create(library, device_,
                                 is_backward ? cudnn_attention_backward(library, shape(), part, precision)
                                             : cudnn_attention_forward(library, shape(), part, precision),
                                 why_not));
  const Bytes room = is_backward
                         ? room_for_backward(parts_.shape, part)
                         : Bytes{parts_.workspace.size() / 256 * 256 - bytes_of_unwanted(shape(), part)};
  if (plan && plan->workspace() > room) {
    why_not = fmt::format("its plan wants {} bytes of memory, and there are {}", plan->workspace().value,
                          room.value);
    plan = nullptr;
  }
  return plan;
}

// Makes plans for all slices or none: slices of one batch from different kernels would be hard to explain.
Result<void> CudnnAttention::make_plans(Pass& pass, const AttentionSlice& slice, bool is_backward) {
  if (slice.sequences == 0) {
    pass.why_not = cudnn_ds_bytes(shape(), {1, 1}) > cudnn_ds_bytes_max.value
                       ? "sequences are too long for 32 bits to address"
                       : "the layer leaves too little memory for one slice";
    return {};
  }
  std::set<AttentionSlice> parts;
  TRY(for_slices(shape(), slice, [&](const AttentionSlice&, const AttentionSlice& part) -> Result<void> {
    parts.insert(part);
    return {};
  }));
  for (const AttentionSlice& part : parts) {
    TRY_ASSIGN(std::unique_ptr<cudnn::Plan> plan, make_plan(part, is_backward, pass.why_not));
    if (!plan) {
      pass.give_up(std::string(pass.why_not));
      return {};
    }
    pass.plans.emplace(part, std::move(plan));
  }
  pass.slice = slice;
  return {};
}

std::string CudnnAttention::describe() const {
  const bool forward = forward_.slice.sequences > 0;
  const bool backward = backward_.slice.sequences > 0 || !parts_.shape.has_backward;
  const std::string library = "cuDNN " + parts_.library->version();
  if (forward && backward) return library;
  std::string why = forward ? backward_.why_not : forward_.why_not;
  if (!forward && !backward && backward_.why_not != why) why += "; backward: " + backward_.why_not;
  const char* const of = forward ? " backward" : !backward || !parts_.shape.has_backward ? "" : " forward";
  return fmt::format("our own kernels{}; {} is not used: {}", of, library, why);
}

// `run(begin, slice)` starts one slice.
template <class Operation, class Run>
Result<bool> CudnnAttention::go_over(const Pass& pass, const Operation& op, Run run) {
  if (pass.slice.sequences == 0 || !is_plain(op) || op.shape != shape() ||
      op.qkv.precision != parts_.shape.precision)
    return false;
  TRY(for_slices(shape(), pass.slice, run));
  return true;
}

Result<bool> CudnnAttention::forward(const Attention& op) {
  return go_over(forward_, op, [&](const AttentionSlice& at, const AttentionSlice& part) {
    return run_forward(op, at, part);
  });
}

Result<bool> CudnnAttention::backward(const AttentionBackward& op) {
  if (op.scratch.size() != parts_.shape.scratch.value) return false;
  return go_over(backward_, op, [&](const AttentionSlice& at, const AttentionSlice& part) {
    return run_backward(op, at, part);
  });
}

// Logarithms are always computed: without them the plan would be another plan, with possibly other bits, and
// whether they are kept for backward must not change numbers.
Result<void> CudnnAttention::run_forward(const Attention& op, const AttentionSlice& at,
                                         const AttentionSlice& part) {
  const AttentionShape& s = op.shape;
  const Offsets from(s, at);
  const Numbers numbers(s);
  float* const unwanted = reinterpret_cast<float*>(
      parts_.workspace.data() + parts_.workspace.size() / 256 * 256 - bytes_of_unwanted(s, part));
  const std::array arguments = {
      argument(AttentionUid::q, op.qkv.at(from.q).data),
      argument(AttentionUid::k, op.qkv.at(from.k).data),
      argument(AttentionUid::v, op.qkv.at(from.v).data),
      argument(AttentionUid::out, op.out.at(from.out).data),
      argument(AttentionUid::lse, op.lse != nullptr ? op.lse + from.rows : unwanted),
      argument(AttentionUid::scale, &numbers.scale),
      argument(AttentionUid::minus_infinity, &numbers.minus_infinity)};
  const int status = forward_.plans.at(part)->execute(context_, arguments, parts_.workspace.data());
  if (status != cudnn::success) return parts_.library->error(status, "attention");
  return {};
}

Result<void> CudnnAttention::run_backward(const AttentionBackward& op, const AttentionSlice& at,
                                          const AttentionSlice& part) {
  const AttentionShape& s = op.shape;
  const Offsets from(s, at);
  const Numbers numbers(s);
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
  const int status =
      backward_.plans.at(part)->execute(context_, arguments, scratch + cudnn_softmax_sum_bytes(s, part));
  if (status != cudnn::success) return parts_.library->error(status, "attention's backward");
  return {};
}

}  // namespace tidepool::cuda
