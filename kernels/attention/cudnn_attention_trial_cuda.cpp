// AttentionTrial compares rows at both ends of a sequence with our own kernels, and one run's bits with
// another's.
#include "kernels/attention/cudnn_attention_trial_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gradient/gradient.h"
#include "kernels/uniform_values.h"
#include "tidepool/fp16.h"

namespace tidepool::cuda {
namespace {

// Two roundings to bf16 differ by 0.4 %, and gradients of several query heads accumulate that; a kernel that
// masks, scales or addresses wrongly is off by tens of percent.
constexpr double difference_max = 0.02;
// Rows of a sequence that are compared at its begin, and as many at its end.
constexpr u64 rows_of_an_end = 512;
// A prime, so that rows differ although the numbers repeat.
constexpr u64 numbers = 1'000'003;
constexpr float numbers_scale = 2;  // q and k of this scale make a softmax that is neither flat nor one-hot
constexpr u32 runs = 2;

struct Columns {
  u64 first, count;
};

// RETURNS: the relative difference |got - want| / |want| over the columns of rows of `width`: the larger
// value of both ends of a sequence, because late rows are small.
double difference(const std::vector<float>& got, const std::vector<float>& want, u64 width,
                  const Columns& columns) {
  double largest = 0;
  for (u64 begin = 0; begin < got.size(); begin += rows_of_an_end * width) {
    double off = 0, size = 0;
    for (u64 row = begin; row < std::min(got.size(), begin + rows_of_an_end * width); row += width)
      for (u64 c = columns.first; c < columns.first + columns.count; ++c) {
        const double g = got[row + c], w = want[row + c];
        off += (g - w) * (g - w), size += w * w;
      }
    const double here = std::sqrt(off / size);
    if (std::isnan(here)) return here;
    largest = std::max(largest, here);
  }
  return largest;
}

// Absolute, because backward takes exponentials of these values.
double absolute_difference(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0;
  for (u64 i = 0; i < got.size(); ++i) {
    const double off = std::abs(double{got[i]} - double{want[i]});
    if (std::isnan(off)) return off;
    largest = std::max(largest, off);
  }
  return largest;
}

// Results of one sequence, on the host.
struct Made {
  std::vector<float> rows, lse;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
bool same_bits(const std::vector<Made>& a, const std::vector<Made>& b) {
  return std::ranges::equal(a, b, [](const Made& x, const Made& y) {
    return same_bits(x.rows, y.rows) && same_bits(x.lse, y.lse);
  });
}

// RETURNS: empty if the array is right. NaN is refused.
std::string why_not(std::string_view array, double difference) {
  if (difference <= difference_max) return {};
  return fmt::format("its {} differs from our kernels' by {:.2g}, and {} is allowed", array, difference,
                     difference_max);
}

constexpr std::string_view varies = "its bits vary from run to run";

}  // namespace

// Arrays for a slice's sequences, with all heads, and for the results of our own kernels on one sequence.
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
  // Sequences that are compared: the first and the last.
  std::vector<u32> compared() const {
    return shape.sequences == 1 ? std::vector<u32>{0} : std::vector<u32>{0, shape.sequences - 1};
  }
};

std::optional<AttentionTrial::Arrays> AttentionTrial::cut(const AttentionSlice& slice,
                                                          bool is_backward) const {
  if (parts_.room.empty()) return std::nullopt;
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
  a.out = values(slice.sequences, a.shape.out_columns());
  a.lse = floats(a.shape.lse_elements());
  if (is_backward) {
    a.dout = values(slice.sequences, a.shape.out_columns());
    a.dqkv = values(slice.sequences, a.shape.qkv_columns());
    a.own_dqkv = values(1, a.shape.qkv_columns());
    a.scratch = {take(parts_.to_come.scratch.value), parts_.to_come.scratch.value};
  } else {
    a.own_out = values(1, a.shape.out_columns());
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
  return wait();  // the copy reads `some` until then
}

Result<void> AttentionTrial::wait() const {
  constexpr const char* doing = "trying cuDNN's attention; TIDEPOOL_CUDNN=off does without it";
  TRY_CUDA(cudaGetLastError(), doing);
  TRY_CUDA(cudaStreamSynchronize(parts_.stream), doing);
  return {};
}

Result<std::vector<float>> AttentionTrial::rows(ConstValues array, u64 columns, u32 sequence) const {
  const u64 tokens = parts_.to_come.shape.tokens, begin = std::min(tokens, rows_of_an_end);
  const u64 end = std::min(tokens - begin, rows_of_an_end);
  std::vector<float> out;
  for (const auto& [first, count] : {std::pair{u64{0}, begin}, {tokens - end, end}}) {
    std::vector<u16> halves(count * columns);
    TRY(download(array.at((sequence * tokens + first) * columns).data,
                 std::as_writable_bytes(std::span(halves))));
    for (const u16 half : halves)
      out.push_back(array.precision == Precision::fp16 ? float_from_fp16(half) : float_from_bf16(half));
  }
  return out;
}

Result<std::vector<float>> AttentionTrial::logarithms(const float* lse, u64 heads, u32 sequence) const {
  const AttentionShape& s = parts_.to_come.shape;
  std::vector<float> out(heads * s.tokens);
  TRY(download(lse + u64{sequence} * s.heads * s.tokens, std::as_writable_bytes(std::span(out))));
  return out;
}

// Fills with NaN, so that elements a kernel fails to write are found.
Result<void> AttentionTrial::clear(void* array, u64 bytes) const {
  TRY_CUDA(cudaMemsetAsync(array, 0xff, bytes, parts_.stream), "clearing what attention makes");
  return {};
}

// Clears the refusal's error: it must not be taken for an error of our kernels.
Result<std::string> AttentionTrial::gave_up(const Error& refused) const {
  static_cast<void>(cudaGetLastError());
  TRY(wait());
  return "it fails: " + refused.message;
}

Result<std::string> AttentionTrial::forward(const AttentionSlice& slice, const RunForward& run) {
  const std::optional<Arrays> a = cut(slice, false);
  if (!a) return std::string("there is no room to try it");
  TRY(pin());
  const AttentionShape& s = a->shape;
  const u64 heads = u64{slice.kv_heads} * s.group(), tokens = u64{s.sequences} * s.tokens;
  TRY(fill(a->qkv, tokens * s.qkv_columns()));
  std::vector<Made> own, before;
  for (const u32 q : a->compared()) {
    attention_cuda({.shape = a->first(),
                    .qkv = a->qkv.at(u64{q} * s.tokens * s.qkv_columns()),
                    .out = a->own_out,
                    .lse = a->own_lse,
                    .dropout = {}},
                   parts_.stream);
    Made& made = own.emplace_back();
    TRY_ASSIGN(made.rows, rows(a->own_out, s.out_columns(), 0));
    TRY_ASSIGN(made.lse, logarithms(a->own_lse, heads, 0));
  }
  for (u32 i = 0; i < runs; ++i) {
    TRY(clear(a->out.data, values_bytes(tokens * s.out_columns(), a->out.precision)));
    TRY(clear(a->lse, s.lse_elements() * sizeof(float)));
    const Result<void> started =
        run({.shape = s, .qkv = a->qkv, .out = a->out, .lse = a->lse, .dropout = {}});
    if (!started) return gave_up(started.error());
    std::vector<Made> now;
    for (const u32 q : a->compared()) {
      const Made& want = own[now.size()];
      Made& made = now.emplace_back();
      TRY_ASSIGN(made.rows, rows(a->out, s.out_columns(), q));
      TRY_ASSIGN(made.lse, logarithms(a->lse, heads, q));
      const double out = difference(made.rows, want.rows, s.out_columns(), {0, heads * s.head_size});
      const double lse = absolute_difference(made.lse, want.lse);
      if (std::string why = why_not("output", out); !why.empty()) return why;
      if (std::string why = why_not("softmax", lse); !why.empty()) return why;
    }
    if (i > 0 && !same_bits(now, before)) return std::string(varies);
    before = std::move(now);
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
  TRY(fill(a->dout, tokens * s.out_columns()));
  attention_cuda({.shape = s, .qkv = a->qkv, .out = a->out, .lse = a->lse, .dropout = {}}, parts_.stream);
  AttentionBackward op{.shape = s,
                       .qkv = a->qkv,
                       .out = a->out,
                       .lse = a->lse,
                       .dout = a->dout,
                       .dqkv = a->dqkv,
                       .dropout = {}};
  op.scratch = a->scratch;
  std::vector<Made> own, before;
  for (const u32 q : a->compared()) {
    AttentionBackward one = op;
    const u64 row = u64{q} * s.tokens;
    one.shape = a->first(), one.dqkv = a->own_dqkv, one.scratch = {};
    one.qkv = op.qkv.at(row * s.qkv_columns());
    one.out = op.out.at(row * s.out_columns()), one.dout = op.dout.at(row * s.out_columns());
    one.lse = op.lse + row * s.heads;
    attention_backward_cuda(one, parts_.stream);
    TRY_ASSIGN(own.emplace_back().rows, rows(a->own_dqkv, s.qkv_columns(), 0));
  }
  for (u32 i = 0; i < runs; ++i) {
    TRY(clear(a->dqkv.data, values_bytes(tokens * s.qkv_columns(), a->dqkv.precision)));
    const Result<void> started = run(op);
    if (!started) return gave_up(started.error());
    std::vector<Made> now;
    for (const u32 q : a->compared()) {
      const Made& want = own[now.size()];
      Made& made = now.emplace_back();
      TRY_ASSIGN(made.rows, rows(a->dqkv, s.qkv_columns(), q));
      for (const auto& [array, columns] :
           {std::pair{"dq", Columns{0, of_queries}},
            {"dk", Columns{s.query_columns(), of_keys}},
            {"dv", Columns{u64{s.query_columns()} + s.key_columns(), of_keys}}}) {
        const double off = difference(made.rows, want.rows, s.qkv_columns(), columns);
        if (std::string why = why_not(array, off); !why.empty()) return why;
      }
    }
    if (i > 0 && !same_bits(now, before)) return std::string(varies);
    before = std::move(now);
  }
  return std::string();
}

}  // namespace tidepool::cuda
