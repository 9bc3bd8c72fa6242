// Reference of rotation with norms, by definition, in double, one head at a time; with test cases for CPU and
// GPUs.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "kernels/rotary/rotary.h"
#include "tests/support/documents.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

// y = x rstd w; also dx, and dw, which is added to.
inline void norm_reference(std::span<const float> x, const std::vector<float>& w, double epsilon,
                           std::span<const float> dy, double* y, double* dx, double* dw) {
  const double n = double(x.size());
  double square = 0, mean_gx = 0;
  for (const float v : x) square += double(v) * v / n;
  const double s = 1 / std::sqrt(square + epsilon);
  for (u64 c = 0; c < x.size(); ++c) {
    y[c] = x[c] * s * w[c];
    dw[c] += dy[c] * x[c] * s;
    mean_gx += double(dy[c]) * w[c] * x[c] * s / n;
  }
  for (u64 c = 0; c < x.size(); ++c) dx[c] = s * (double(dy[c]) * w[c] - x[c] * s * mean_gx);
}

struct RotaryCase {
  RotaryShape shape;
  bool norms = false, documents = false;
  float norm_offset = 0;
};

inline const RotaryCase rotary_cases[] = {
    {{.rows = 1, .tokens = 1, .heads = 1, .kv_heads = 1, .head_size = 2}},
    {{.rows = 24, .tokens = 12, .heads = 3, .kv_heads = 3, .head_size = 8}, true, true},
    {{.rows = 66, .tokens = 33, .heads = 4, .kv_heads = 2, .head_size = 16}},
    {{.rows = 34, .tokens = 17, .heads = 4, .kv_heads = 1, .head_size = 20}, true, true},
    {{.rows = 40, .tokens = 40, .heads = 8, .kv_heads = 1, .head_size = 64}, false, true},
    {{.rows = 70, .tokens = 35, .heads = 2, .kv_heads = 2, .head_size = 80}, true},
    {{.rows = 20, .tokens = 10, .heads = 4, .kv_heads = 2, .head_size = 96}, true, true},
    {{.rows = 65, .tokens = 65, .heads = 5, .kv_heads = 1, .head_size = 128}, true, true},
    {{.rows = 9, .tokens = 9, .heads = 1, .kv_heads = 1, .head_size = 256}, true},
    {{.rows = 12, .tokens = 6, .heads = 3, .kv_heads = 1, .head_size = 7, .rotated_size = 4}},
    {{.rows = 66, .tokens = 33, .heads = 3, .kv_heads = 1, .head_size = 40, .rotated_size = 30}, false, true},
    {{.rows = 20, .tokens = 20, .heads = 4, .kv_heads = 2, .head_size = 72, .rotated_size = 48}},
    {{.rows = 33, .tokens = 33, .heads = 3, .kv_heads = 1, .head_size = 128, .rotated_size = 96},
     false,
     true},
    {{.rows = 34, .tokens = 17, .heads = 4, .kv_heads = 1, .head_size = 20}, true, true, 1.0f},
    {{.rows = 9, .tokens = 9, .heads = 2, .kv_heads = 1, .head_size = 256}, true, false, 1.0f},
    // A share of heads that have norms.
    {{.rows = 34, .tokens = 17, .heads = 3, .kv_heads = 1, .head_size = 16, .rotated_size = 4}, true, true},
    {{.rows = 33, .tokens = 11, .heads = 5, .kv_heads = 3, .head_size = 21, .rotated_size = 10}, true, false},
    {{.rows = 10, .tokens = 5, .heads = 3, .kv_heads = 1, .head_size = 72, .rotated_size = 48}, true, true},
    {{.rows = 35, .tokens = 35, .heads = 3, .kv_heads = 1, .head_size = 128, .rotated_size = 32},
     true,
     true,
     1.0f},
    // Gates behind the heads of q.
    {{.rows = 10, .tokens = 5, .heads = 3, .kv_heads = 1, .head_size = 16, .query_stride = 32}},
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 2,
      .head_size = 40,
      .rotated_size = 12,
      .query_stride = 83},
     false,
     true},
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 1,
      .head_size = 16,
      .rotated_size = 4,
      .query_stride = 17},
     true,
     true},
    {{.rows = 9, .tokens = 9, .heads = 2, .kv_heads = 2, .head_size = 24, .query_stride = 48}, true},
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 1,
      .head_size = 256,
      .rotated_size = 64,
      .query_stride = 512},
     true,
     true,
     1.0f},
    // Neighbours rotate together.
    {{.rows = 20, .tokens = 10, .heads = 3, .kv_heads = 1, .head_size = 16, .neighbours = true}, false, true},
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 2,
      .head_size = 72,
      .rotated_size = 48,
      .neighbours = true}},
    {{.rows = 33,
      .tokens = 33,
      .heads = 4,
      .kv_heads = 1,
      .head_size = 20,
      .rotated_size = 12,
      .neighbours = true},
     true,
     true},
    // q grows with its position.
    {{.rows = 40,
      .tokens = 20,
      .heads = 4,
      .kv_heads = 2,
      .head_size = 16,
      .query_growth = 0.3f,
      .query_period = 6},
     false,
     true},
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 1,
      .head_size = 21,
      .rotated_size = 10,
      .query_stride = 25,
      .query_growth = 0.1f,
      .query_period = 3}},
    {{.rows = 40,
      .tokens = 40,
      .heads = 3,
      .kv_heads = 1,
      .head_size = 128,
      .rotated_size = 32,
      .query_growth = 0.5f,
      .query_period = 7},
     true,
     true},
    // Large heads, and heads of v with a norm.
    {{.rows = 9, .tokens = 9, .heads = 3, .kv_heads = 1, .head_size = 512}, true, true},
    {{.rows = 34,
      .tokens = 17,
      .heads = 4,
      .kv_heads = 2,
      .head_size = 20,
      .values = RotaryValues::normalised},
     true,
     true},
    {{.rows = 9,
      .tokens = 9,
      .heads = 2,
      .kv_heads = 2,
      .head_size = 512,
      .values = RotaryValues::normalised},
     true},
    {{.rows = 33,
      .tokens = 33,
      .heads = 5,
      .kv_heads = 3,
      .head_size = 21,
      .rotated_size = 10,
      .values = RotaryValues::normalised_keys},
     true,
     true},
    {{.rows = 10,
      .tokens = 10,
      .heads = 9,
      .kv_heads = 3,
      .head_size = 512,
      .values = RotaryValues::normalised_keys},
     true,
     true},
    // k and v are another layer's.
    {{.rows = 34,
      .tokens = 17,
      .heads = 3,
      .kv_heads = 2,
      .head_size = 40,
      .rotated_size = 12,
      .values = RotaryValues::given},
     true,
     true}};

// Columns that a kernel must leave hold this number.
inline constexpr float untouched = -7;

struct RotaryData {
  explicit RotaryData(const RotaryCase& c)
      : qkv(random_floats(u64{c.shape.rows} * c.shape.in_columns(), 1)),
        dout(random_floats(u64{c.shape.rows} * c.shape.columns(), 2)),
        q_norm(random_floats(c.shape.head_size, 3)),
        k_norm(random_floats(c.shape.head_size, 4)) {
    const u32 size = c.shape.rotated();
    for (u32 i = 0; i < size / 2; ++i) {
      frequencies[i] = static_cast<float>(std::pow(10000.0, -2.0 * i / size));
    }
    if (c.documents) starts = growing_documents(c.shape.rows / c.shape.tokens, c.shape.tokens);
  }

  Rotary forward(const RotaryCase& c, ConstValues from, Values out) const {
    return {.shape = c.shape,
            .qkv = from,
            .out = out,
            .starts = starts.empty() ? nullptr : starts.data(),
            .inverse_frequencies = frequencies,
            .q_norm = c.norms ? param_of(q_norm) : Param(),
            .k_norm = c.norms && c.shape.key_heads() != 0 ? param_of(k_norm) : Param(),
            .norm_offset = c.norm_offset,
            .epsilon = 1e-5f};
  }
  // Backward without the norms' gradients. dx: none if in place.
  RotaryBackward backward(const RotaryCase& c, ConstValues from, Values dqkv, Values dx = {}) const {
    return {.shape = c.shape,
            .qkv = c.norms ? from : ConstValues(),
            .dqkv = dqkv,
            .dx = dx,
            .starts = starts.empty() ? nullptr : starts.data(),
            .inverse_frequencies = frequencies,
            .q_norm = c.norms ? param_of(q_norm) : Param(),
            .k_norm = c.norms && c.shape.key_heads() != 0 ? param_of(k_norm) : Param(),
            .norm_offset = c.norm_offset,
            .epsilon = 1e-5f,
            .accumulate = false};
  }

  std::vector<float> qkv, dout, q_norm, k_norm;
  std::vector<i32> starts;
  RotaryFrequencies frequencies = {};
};

// dx: `untouched` in gates' columns.
struct RotaryReference {
  std::vector<double> out, dx, dq_norm, dk_norm;
};

// First elements of a head in rows of the input and of the output: q's heads, then k's, then v's.
inline std::pair<u64, u64> rotary_head_places(const RotaryShape& s, u32 row, u32 head) {
  const u32 of_v = s.heads + s.kv_heads;
  const u32 from = s.keys_are_values() && head >= of_v ? head - s.kv_heads : head;
  const u64 in = from < s.heads ? u64{from} * s.q_stride()
                                : u64{s.heads} * s.q_stride() + u64{from - s.heads} * s.head_size;
  return {u64{row} * s.in_columns() + in, u64{row} * s.columns() + u64{head} * s.head_size};
}

struct RotatedHead {
  u32 row, head;
};
// to = the head, with its first elements rotated by the row's position; direction: 1 or -1.
inline void rotate_reference(const RotaryCase& c, const RotaryData& d, RotatedHead at, double direction,
                             const double* from, double* to) {
  const auto [row, head] = at;
  const RotaryShape& s = c.shape;
  const u32 position = row % s.tokens - (d.starts.empty() ? 0 : static_cast<u32>(d.starts[row]));
  const u32 half = s.rotated() / 2;
  for (u32 i = 0; i < half; ++i) {
    const double angle = static_cast<float>(position) * d.frequencies[i];  // in fp32, as models do
    const double cosine = std::cos(angle), sine = direction * std::sin(angle);
    const u32 first = s.neighbours ? 2 * i : i, second = s.neighbours ? first + 1 : i + half;
    const double a = from[first], b = from[second];
    to[first] = a * cosine - b * sine;
    to[second] = b * cosine + a * sine;
  }
  std::copy(from + s.rotated(), from + s.head_size, to + s.rotated());
  if (s.query_growth == 0 || head >= s.heads) return;
  const double factor = 1 + s.query_growth * std::log(1.0 + position / s.query_period);
  for (u32 i = 0; i < s.head_size; ++i) to[i] *= factor;
}

// A head of v, which begins at `in` and `out`. The gradient of k, if v is k, must be there.
inline void values_reference(const RotaryCase& c, const RotaryData& d, u64 in, u64 out, RotaryReference& r) {
  const u32 size = c.shape.head_size;
  if (c.shape.values == RotaryValues::copied) {
    std::copy_n(&d.qkv[in], size, &r.out[out]);
    std::copy_n(&d.dout[out], size, &r.dx[in]);
    return;
  }
  std::vector<double> dx(size), no_weight(size);
  norm_reference({&d.qkv[in], size}, std::vector<float>(size, 1.0f), 1e-5, {&d.dout[out], size}, &r.out[out],
                 dx.data(), no_weight.data());
  for (u32 i = 0; i < size; ++i) r.dx[in + i] = (c.shape.keys_are_values() ? r.dx[in + i] : 0) + dx[i];
}

inline RotaryReference rotary_reference(const RotaryCase& c, const RotaryData& d) {
  const RotaryShape& s = c.shape;
  const u32 size = s.head_size;
  RotaryReference r = {std::vector<double>(d.dout.size()), std::vector<double>(d.qkv.size(), untouched),
                       std::vector<double>(size, 0.0), std::vector<double>(size, 0.0)};
  for (u32 row = 0; row < s.rows; ++row) {
    for (u32 head = 0; head < s.heads + 2 * s.key_heads(); ++head) {
      const auto [in, out] = rotary_head_places(s, row, head);
      std::vector<double> x(&d.qkv[in], &d.qkv[in] + size), dy(&d.dout[out], &d.dout[out] + size), back = dy;
      if (head >= s.heads + s.kv_heads) {
        values_reference(c, d, in, out, r);
        continue;
      }
      rotate_reference(c, d, {row, head}, -1, dy.data(), back.data());
      std::copy(back.begin(), back.end(), &r.dx[in]);
      if (c.norms) {
        const bool of_q = head < s.heads;
        std::vector<float> weight = of_q ? d.q_norm : d.k_norm;
        for (float& w : weight) w += c.norm_offset;
        norm_reference({&d.qkv[in], size}, weight, 1e-5, std::vector<float>(back.begin(), back.end()),
                       x.data(), &r.dx[in], of_q ? r.dq_norm.data() : r.dk_norm.data());
      }
      rotate_reference(c, d, {row, head}, 1, x.data(), &r.out[out]);
    }
  }
  return r;
}

// Calls fn(element) for every element of the input's rows that is between the heads of q.
template <class Fn>
void for_gates(const RotaryShape& s, Fn fn) {
  for (u32 row = 0; row < s.rows; ++row)
    for (u32 head = 0; head < s.heads; ++head)
      for (u32 i = s.head_size; i < s.q_stride(); ++i) fn(rotary_head_places(s, row, head).first + i);
}

}  // namespace tidepool::test
