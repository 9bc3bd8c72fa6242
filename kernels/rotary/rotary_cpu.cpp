// Rotary on the CPU, a group of rows per task: the angles of a row are computed once for all its heads.
#include "kernels/rotary/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/rms_norm/rms_norm_rows.h"
#include "kernels/rotary/rotary_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 size_max = 2 * rotary_pairs_max;

struct Scratch {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
  float weights[3][size_max];  // weights of q's norm and k's norm, and ones for v's
  float head[size_max];
  float values[size_max], unused[size_max];  // gradients of a head of v, and of its weights that are ones
  float total[size_max];
  float query_factor;  // of the row
};

void check_shape(const RotaryShape& s) {
  CHECK(s.rotated() % 2 == 0 && s.rotated() <= s.head_size, s.rotated(), s.head_size);
  CHECK(s.head_size <= size_max, s.head_size);
  CHECK(s.q_stride() >= s.head_size, s.query_stride, s.head_size);
  CHECK(!s.keys_are_values() || s.q_stride() == s.head_size, s.query_stride);
  CHECK(s.query_growth == 0 || s.query_period > 0);
  CHECK(s.rows == 0 || (s.tokens > 0 && s.rows % s.tokens == 0), s.rows, s.tokens);
}

u32 groups_of(u32 rows) { return static_cast<u32>(div_up(rows, rotary_group_rows)); }

// `op`: Rotary or RotaryBackward. direction: 1 rotates forward, -1 back.
template <class Op>
void make_angles(const Op& op, u32 row, float direction, Scratch& scratch) {
  const u32 token = op.shape.first_token + row % op.shape.tokens;
  u32 start = 0;
  if (op.starts != nullptr) {
    start = static_cast<u32>(op.starts[row]);
    if (op.holes != nullptr) start += op.holes[row].length();
    CHECK(start <= token, start, token);
  }
  const float position = static_cast<float>(token - start);
  for (u32 i = 0; i < op.shape.rotated() / 2; ++i) {
    const float angle = position * op.inverse_frequencies[i];
    scratch.cosine[i] = op.shape.factor * std::cos(angle);
    scratch.sine[i] = direction * op.shape.factor * std::sin(angle);
  }
  if (op.shape.query_growth == 0) return;
  const u32 periods = (token - start) / op.shape.query_period;
  scratch.query_factor = 1 + op.shape.query_growth * std::log(1 + static_cast<float>(periods));
}

// Computes the angles of each row of the group and calls fn(row).
template <class Op, class Fn>
void for_rows(const Op& op, u32 group, float direction, Scratch& scratch, Fn fn) {
  const u32 end = std::min((group + 1) * rotary_group_rows, op.shape.rows);
  for (u32 row = group * rotary_group_rows; row < end; ++row) {
    make_angles(op, row, direction, scratch);
    fn(row);
  }
}

// First element of a row's head, q's heads before k's, in arrays with the input's columns and the output's.
struct HeadPlace {
  u64 in, out;
};
HeadPlace head_place(const RotaryShape& s, u32 row, u32 head) {
  const u64 skipped = u64{std::min(head, s.heads)} * (s.q_stride() - s.head_size);
  const u64 in_row = u64{head} * s.head_size;
  return {u64{row} * s.in_columns() + skipped + in_row, u64{row} * s.columns() + in_row};
}

// Calls fn(place, 0 for q or 1 for k) for each head of a row that is normalised or rotated.
template <class Fn>
void for_heads(const RotaryShape& s, u32 row, Fn fn) {
  for (u32 head = 0; head < s.heads + s.key_heads(); ++head) {
    fn(head_place(s, row, head), head < s.heads ? 0u : 1u);
  }
}

// Place of a head of v. The heads of v are those after k's, and come from k's if they are the same.
HeadPlace values_place(const RotaryShape& s, u32 row, u32 head) {
  HeadPlace at = head_place(s, row, s.heads + s.kv_heads + head);
  if (s.keys_are_values()) at.in = head_place(s, row, s.heads + head).in;
  return at;
}
void copy_elements(float* y, const float* x, u64 n) {
  if (x != y) std::memcpy(y, x, n * sizeof(float));
}

void rotate_neighbours(const Scratch& angles, const float* x, float* y, u32 pairs) {
  for (u32 i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = angles.cosine[i], s = angles.sine[i];
    y[2 * i] = a * c - b * s;
    y[2 * i + 1] = b * c + a * s;
  }
}

// Rotates a head of q (`which` is 0) or k; the elements after the rotated ones are copied. y may be x.
void rotate_head(const RotaryShape& s, const Scratch& angles, u32 which, const float* x, float* y) {
  if (s.neighbours)
    rotate_neighbours(angles, x, y, s.rotated() / 2);
  else
    rotate_row(x, angles.cosine, angles.sine, y, s.rotated() / 2);
  copy_elements(y + s.rotated(), x + s.rotated(), s.head_size - s.rotated());
  if (which == 0 && s.query_growth != 0) rows::scale(y, angles.query_factor, s.head_size);
}

struct NormWeights {
  const float* of[3] = {nullptr, nullptr, nullptr};  // q's, k's and v's, or null
};
template <class Op>
NormWeights norm_weights(const Op& op, Scratch& scratch) {
  const bool keys = op.shape.values != RotaryValues::given;
  CHECK(bool(op.k_norm) == (keys && bool(op.q_norm)));
  const bool values = keys && op.shape.values != RotaryValues::copied;
  CHECK(!values || op.q_norm);
  if (!op.q_norm) return {};
  std::fill_n(scratch.weights[2], op.shape.head_size, 1.0f);
  return {
      {rows::widened_sum(op.q_norm, op.norm_offset, op.shape.head_size, scratch.weights[0]),
       keys ? rows::widened_sum(op.k_norm, op.norm_offset, op.shape.head_size, scratch.weights[1]) : nullptr,
       values ? scratch.weights[2] : nullptr}};
}

void forward_values(const Rotary& op, u32 row, const float* weight) {
  const RotaryShape& s = op.shape;
  if (s.values == RotaryValues::given) return;
  const auto [in, out] = values_place(s, row, 0);
  if (weight == nullptr)
    return copy_elements(op.out.fp32() + out, op.qkv.fp32() + in, u64{s.kv_heads} * s.head_size);
  for (u32 head = 0; head < s.kv_heads; ++head) {
    const HeadPlace at = values_place(s, row, head);
    const float* x = op.qkv.fp32() + at.in;
    rms_norm_row(x, rms_of_row(x, op.epsilon, s.head_size), weight, nullptr, op.out.fp32() + at.out,
                 s.head_size);
  }
}

void forward_row(const Rotary& op, u32 row, const NormWeights& weights, Scratch& scratch) {
  const RotaryShape& s = op.shape;
  for_heads(s, row, [&](HeadPlace at, u32 which) {
    const float* x = op.qkv.fp32() + at.in;
    float* y = op.out.fp32() + at.out;
    if (weights.of[which] != nullptr) {
      rms_norm_row(x, rms_of_row(x, op.epsilon, s.head_size), weights.of[which], nullptr, y, s.head_size);
      x = y;
    }
    rotate_head(s, scratch, which, x, y);
  });
  forward_values(op, row, weights.of[2]);
}

// dx = the gradient of v's norm over a head.
void values_gradient(const RotaryBackward& op, HeadPlace at, const float* weight, float* dx,
                     Scratch& scratch) {
  const u32 size = op.shape.head_size;
  const float* x = op.qkv.fp32() + at.in;
  std::memset(scratch.unused, 0, size * sizeof(float));
  rms_norm_backward_row({.x = x,
                         .weight = weight,
                         .dy = op.dqkv.fp32() + at.out,
                         .rstd = rms_of_row(x, op.epsilon, size),
                         .dx = dx,
                         .add_to_dx = false,
                         .dweight = scratch.unused},
                        size);
}

void backward_values(const RotaryBackward& op, u32 row, const float* weight, float* to, Scratch& scratch) {
  const RotaryShape& s = op.shape;
  if (s.values == RotaryValues::given) return;
  const auto [in, out] = values_place(s, row, 0);
  if (weight == nullptr) return copy_elements(to + in, op.dqkv.fp32() + out, u64{s.kv_heads} * s.head_size);
  if (s.keys_are_values()) return;  // added to k's
  for (u32 head = 0; head < s.kv_heads; ++head) {
    const HeadPlace at = values_place(s, row, head);
    values_gradient(op, at, weight, to + at.in, scratch);
  }
}

void backward_row(const RotaryBackward& op, u32 row, const NormWeights& weights, float* partials,
                  Scratch& scratch) {
  const RotaryShape& s = op.shape;
  const u32 size = s.head_size;
  float* const to = op.dx ? op.dx.fp32() : op.dqkv.fp32();
  for_heads(s, row, [&](HeadPlace at, u32 which) {
    const bool adds_values = which == 1 && s.keys_are_values();
    // First, because dx may be qkv.
    const u64 values = at.out + u64{s.kv_heads} * size;
    if (adds_values) values_gradient(op, {at.in, values}, weights.of[2], scratch.values, scratch);
    const float* dy = op.dqkv.fp32() + at.out;
    if (weights.of[which] == nullptr) return rotate_head(s, scratch, which, dy, to + at.in);
    rotate_head(s, scratch, which, dy, scratch.head);
    const float* x = op.qkv.fp32() + at.in;
    rms_norm_backward_row({.x = x,
                           .weight = weights.of[which],
                           .dy = scratch.head,
                           .rstd = rms_of_row(x, op.epsilon, size),
                           .dx = to + at.in,
                           .add_to_dx = false,
                           .dweight = partials + which * size},
                          size);
    if (adds_values) rows::add(to + at.in, scratch.values, size);
  });
  backward_values(op, row, weights.of[2], to, scratch);
}

void sum_groups(const RotaryBackward& op, u32 which, Scratch& scratch) {
  const u32 size = op.shape.head_size;
  std::memset(scratch.total, 0, size * sizeof(float));
  for (u32 group = 0; group < groups_of(op.shape.rows); ++group) {
    rows::add(scratch.total, op.partials + (u64{group} * 2 + which) * size, size);
  }
  rows::store(which == 0 ? op.dq_norm : op.dk_norm, scratch.total, size, op.accumulate);
}

}  // namespace

void rotary_cpu(const Rotary& op, CorePool& pool) {
  check_shape(op.shape);
  CHECK(op.shape.in_columns() == op.shape.columns() || op.out.data != op.qkv.data, op.shape.in_columns());
  parallel_for(pool, Priority::normal, groups_of(op.shape.rows), [&](u32 group, u32 worker) {
    auto& scratch = *reinterpret_cast<Scratch*>(pool.scratch(worker));
    const NormWeights weights = norm_weights(op, scratch);
    for_rows(op, group, 1.0f, scratch, [&](u32 row) { forward_row(op, row, weights, scratch); });
  });
}

void rotary_backward_cpu(const RotaryBackward& op, CorePool& pool) {
  check_shape(op.shape);
  const bool norms = bool(op.q_norm);
  CHECK(!norms || (op.qkv && op.partials != nullptr));
  CHECK(op.shape.in_columns() == op.shape.columns() || (op.dx && op.dx.data != op.dqkv.data),
        op.shape.in_columns());
  parallel_for(pool, Priority::normal, groups_of(op.shape.rows), [&](u32 group, u32 worker) {
    auto& scratch = *reinterpret_cast<Scratch*>(pool.scratch(worker));
    const NormWeights weights = norm_weights(op, scratch);
    float* partials = norms ? op.partials + u64{group} * 2 * op.shape.head_size : nullptr;
    if (norms) std::memset(partials, 0, u64{2} * op.shape.head_size * sizeof(float));
    for_rows(op, group, -1.0f, scratch, [&](u32 row) { backward_row(op, row, weights, partials, scratch); });
  });
  if (!norms || op.dq_norm == nullptr) return;
  const u32 norms_of = op.dk_norm != nullptr ? 2 : 1;
  parallel_for(pool, Priority::normal, norms_of, [&](u32 which, u32 worker) {
    sum_groups(op, which, *reinterpret_cast<Scratch*>(pool.scratch(worker)));
  });
}

}  // namespace tidepool
