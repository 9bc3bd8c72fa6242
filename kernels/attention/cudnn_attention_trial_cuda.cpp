#include "kernels/attention/cudnn_attention_trial_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gradient.h"
#include "kernels/uniform_values.h"
#include "tidepool/fp16.h"

namespace tidepool::cuda {
namespace {

// Two roundings to bf16 lie 0.4 % apart, and gradients of several query heads add up; a kernel that masks,
// scales or addresses wrongly is off by tens of percent.
constexpr double difference_max = 0.02;
// Rows of a sequence that are compared: as many of its begin as of its end.
constexpr u64 rows_of_an_end = 512;
// A prime, so that rows differ though the numbers repeat.
constexpr u64 numbers = 1'000'003;
constexpr float numbers_scale = 2;  // of q and k: softmax is neither flat nor one-sided
constexpr u32 runs = 2;

struct Columns {
  u64 first, count;
};

// Of rows of `width`: |got - want| / |want| over the columns.
double difference(const std::vector<float>& got, const std::vector<float>& want, u64 width,
                  const Columns& columns) {
  double off = 0, size = 0;
  for (u64 row = 0; row < got.size(); row += width)
    for (u64 c = columns.first; c < columns.first + columns.count; ++c) {
      const double g = got[row + c], w = want[row + c];
      off += (g - w) * (g - w), size += w * w;
    }
  return std::sqrt(off / size);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Empty if the array is right. What is no number is not.
std::string why_not(std::string_view array, double difference) {
  if (difference <= difference_max) return {};
  return fmt::format("its {} differs from our kernels' by {:.2g} of its size, and {} is allowed", array,
                     difference, difference_max);
}

std::string why_not(const Error& refused) { return "it fails: " + refused.message; }

constexpr std::string_view varies = "its bits vary from run to run";

}  // namespace

// For a slice's sequences, with all heads; `own`: what our kernels make of the first of them.
struct AttentionTrial::Arrays {
  AttentionShape shape;
  Values qkv, out, dout, dqkv, own_out, own_dqkv;
  float *lse = nullptr, *own_lse = nullptr;
  std::span<std::byte> scratch{};

  AttentionShape first() const {
    AttentionShape one = shape;
    one.sequences = 1;
    return one;
  }
};

std::optional<AttentionTrial::Arrays> AttentionTrial::cut(const AttentionSlice& slice,
                                                          bool is_backward) const {
  Arrays a{.shape = parts_.to_come.shape};
  a.shape.sequences = slice.sequences;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(parts_.room.data());
  u64 used = (0 - begin) % cudnn_scratch_alignment;
  const auto take = [&](u64 bytes) {
    std::byte* const at = parts_.room.data() + used;
    used = round_up(used + bytes, cudnn_scratch_alignment);
    return at;
  };
  const Precision precision = parts_.to_come.precision;
  const auto values = [&](u32 sequences, u64 columns) {
    return Values{take(values_bytes(u64{sequences} * a.shape.tokens * columns, precision)), precision};
  };
  const auto floats = [&](u64 count) { return reinterpret_cast<float*>(take(count * sizeof(float))); };
  a.qkv = values(slice.sequences, a.shape.qkv_columns());
  a.out = values(slice.sequences, a.shape.hidden());
  a.lse = floats(a.shape.lse_elements());
  if (is_backward) {
    a.dout = values(slice.sequences, a.shape.hidden());
    a.dqkv = values(slice.sequences, a.shape.qkv_columns());
    a.own_dqkv = values(1, a.shape.qkv_columns());
    a.scratch = {take(parts_.to_come.scratch.value), parts_.to_come.scratch.value};
  } else {
    a.own_out = values(1, a.shape.hidden());
    a.own_lse = floats(a.first().lse_elements());
  }
  if (used > parts_.room.size()) return std::nullopt;
  return a;
}

AttentionTrial::~AttentionTrial() {
  if (!pinned_.empty()) cudaFreeHost(pinned_.data());
}

Result<void> AttentionTrial::pin() {
  if (!pinned_.empty()) return {};
  constexpr u64 bytes = numbers * sizeof(u16);
  void* begin = nullptr;
  TRY_CUDA(cudaHostAlloc(&begin, bytes, cudaHostAllocPortable), "pinning memory to try attention with");
  pinned_ = {static_cast<std::byte*>(begin), bytes};
  return {};
}

Result<void> AttentionTrial::download(const void* from, std::span<std::byte> to) const {
  for (u64 at = 0; at < to.size(); at += pinned_.size()) {
    const std::span<std::byte> part = to.subspan(at, std::min(pinned_.size(), to.size() - at));
    TRY_CUDA(cudaMemcpyAsync(pinned_.data(), static_cast<const std::byte*>(from) + at, part.size(),
                             cudaMemcpyDeviceToHost, parts_.stream),
             "copying what attention made");
    TRY(wait());
    std::memcpy(part.data(), pinned_.data(), part.size());
  }
  return {};
}

Result<void> AttentionTrial::fill(Values array, u64 elements) const {
  const std::span<std::byte> some = pinned_.first(values_bytes(std::min(elements, numbers), array.precision));
  make_uniform(some, array.precision, numbers_scale);
  const u64 bytes = values_bytes(elements, array.precision);
  for (u64 at = 0; at < bytes; at += some.size())
    TRY_CUDA(cudaMemcpyAsync(array.data + at, some.data(), std::min<u64>(some.size(), bytes - at),
                             cudaMemcpyHostToDevice, parts_.stream),
             "copying numbers to try attention with");
  return wait();  // `some` is read until then
}

Result<void> AttentionTrial::wait() const {
  constexpr const char* doing = "trying cuDNN's attention; TIDEPOOL_CUDNN=off does without it";
  TRY_CUDA(cudaGetLastError(), doing);
  TRY_CUDA(cudaStreamSynchronize(parts_.stream), doing);
  return {};
}

Result<std::vector<float>> AttentionTrial::rows(ConstValues array, u64 columns) const {
  const u64 tokens = parts_.to_come.shape.tokens, begin = std::min(tokens, rows_of_an_end);
  const u64 end = std::min(tokens - begin, rows_of_an_end);
  std::vector<float> out;
  for (const auto& [first, count] : {std::pair{u64{0}, begin}, {tokens - end, end}}) {
    std::vector<u16> halves(count * columns);
    TRY(download(array.at(first * columns).data, std::as_writable_bytes(std::span(halves))));
    for (const u16 half : halves)
      out.push_back(array.precision == Precision::fp16 ? float_from_fp16(half) : float_from_bf16(half));
  }
  return out;
}

Result<std::vector<float>> AttentionTrial::logarithms(const float* lse, u64 heads) const {
  std::vector<float> out(heads * parts_.to_come.shape.tokens);
  TRY(download(lse, std::as_writable_bytes(std::span(out))));
  return out;
}

Result<std::string> AttentionTrial::forward(const AttentionSlice& slice, const RunForward& run) {
  const std::optional<Arrays> a = cut(slice, false);
  if (!a) return std::string("there is no room to try it");
  TRY(pin());
  const AttentionShape& s = a->shape;
  const u64 heads = u64{slice.kv_heads} * s.group();
  TRY(fill(a->qkv, u64{s.sequences} * s.tokens * s.qkv_columns()));
  attention_cuda({.shape = a->first(), .qkv = a->qkv, .out = a->own_out, .lse = a->own_lse, .dropout = {}},
                 parts_.stream);
  TRY_ASSIGN(const std::vector<float> own_out, rows(a->own_out, s.hidden()));
  TRY_ASSIGN(const std::vector<float> own_lse, logarithms(a->own_lse, heads));
  std::vector<float> before;
  for (u32 i = 0; i < runs; ++i) {
    // NaN, where it writes nothing.
    TRY_CUDA(cudaMemsetAsync(a->out.data, 0xff, values_bytes(u64{s.tokens} * s.hidden(), a->out.precision),
                             parts_.stream),
             "clearing what attention makes");
    const Result<void> started =
        run({.shape = s, .qkv = a->qkv, .out = a->out, .lse = a->lse, .dropout = {}});
    if (!started) return why_not(started.error());
    TRY_ASSIGN(std::vector<float> out, rows(a->out, s.hidden()));
    TRY_ASSIGN(const std::vector<float> lse, logarithms(a->lse, heads));
    if (std::string why = why_not("output", difference(out, own_out, s.hidden(), {0, heads * s.head_size}));
        !why.empty())
      return why;
    if (std::string why = why_not("softmax", difference(lse, own_lse, s.tokens, {0, s.tokens})); !why.empty())
      return why;
    if (i > 0 && !same_bits(out, before)) return std::string(varies);
    before = std::move(out);
  }
  return std::string();
}

Result<std::string> AttentionTrial::backward(const AttentionSlice& slice, const RunBackward& run) {
  const std::optional<Arrays> a = cut(slice, true);
  if (!a) return std::string("there is no room to try it");
  TRY(pin());
  const AttentionShape& s = a->shape;
  const u64 tokens = u64{s.sequences} * s.tokens, of_queries = u64{slice.kv_heads} * s.group() * s.head_size,
            of_keys = u64{slice.kv_heads} * s.head_size;
  TRY(fill(a->qkv, tokens * s.qkv_columns()));
  TRY(fill(a->dout, tokens * s.hidden()));
  attention_cuda({.shape = s, .qkv = a->qkv, .out = a->out, .lse = a->lse, .dropout = {}}, parts_.stream);
  AttentionBackward op{.shape = a->first(),
                       .qkv = a->qkv,
                       .out = a->out,
                       .lse = a->lse,
                       .dout = a->dout,
                       .dqkv = a->own_dqkv,
                       .dropout = {}};
  attention_backward_cuda(op, parts_.stream);
  TRY_ASSIGN(const std::vector<float> own, rows(a->own_dqkv, s.qkv_columns()));
  op.shape = s, op.dqkv = a->dqkv, op.scratch = a->scratch;
  std::vector<float> before;
  for (u32 i = 0; i < runs; ++i) {
    TRY_CUDA(cudaMemsetAsync(a->dqkv.data, 0xff,
                             values_bytes(u64{s.tokens} * s.qkv_columns(), a->dqkv.precision), parts_.stream),
             "clearing what attention makes");
    const Result<void> started = run(op);
    if (!started) return why_not(started.error());
    TRY_ASSIGN(std::vector<float> got, rows(a->dqkv, s.qkv_columns()));
    for (const auto& [array, columns] : {std::pair{"dq", Columns{0, of_queries}},
                                         {"dk", Columns{s.hidden(), of_keys}},
                                         {"dv", Columns{u64{s.hidden()} + s.key_columns(), of_keys}}})
      if (std::string why = why_not(array, difference(got, own, s.qkv_columns(), columns)); !why.empty())
        return why;
    if (i > 0 && !same_bits(got, before)) return std::string(varies);
    before = std::move(got);
  }
  return std::string();
}

}  // namespace tidepool::cuda
