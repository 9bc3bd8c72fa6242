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
  float weights[2][size_max];  // weights of q's norm and k's norm
  float head[size_max];
  float total[size_max];
};

void check_shape(const RotaryShape& s) {
  CHECK(s.rotated() % 2 == 0 && s.rotated() <= s.head_size, s.rotated(), s.head_size);
  CHECK(s.head_size / 2 <= rotary_pairs_max, s.head_size);
  CHECK(s.rows == 0 || (s.tokens > 0 && s.rows % s.tokens == 0), s.rows, s.tokens);
}

u32 groups_of(u32 rows) { return static_cast<u32>(div_up(rows, rotary_group_rows)); }

// `op`: Rotary or RotaryBackward. direction: 1 rotates forward, -1 back.
template <class Op>
void make_angles(const Op& op, u32 row, float direction, Scratch& scratch) {
  const u32 token = row % op.shape.tokens;
  u32 start = 0;
  if (op.starts != nullptr) {
    start = static_cast<u32>(op.starts[row]);
    CHECK(start <= token, start, token);
  }
  const float position = static_cast<float>(token - start);
  for (u32 i = 0; i < op.shape.rotated() / 2; ++i) {
    const float angle = position * op.inverse_frequencies[i];
    scratch.cosine[i] = op.shape.factor * std::cos(angle);
    scratch.sine[i] = direction * op.shape.factor * std::sin(angle);
  }
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

// Calls fn(first element, 0 for q or 1 for k) for each rotated head of a row.
template <class Fn>
void for_heads(const RotaryShape& s, u32 row, Fn fn) {
  for (u32 head = 0; head < s.heads + s.kv_heads; ++head) {
    fn(u64{row} * s.columns() + u64{head} * s.head_size, head < s.heads ? 0u : 1u);
  }
}

struct NormWeights {
  const float* of[2] = {nullptr, nullptr};  // q's and k's, or null
};
template <class Op>
NormWeights norm_weights(const Op& op, Scratch& scratch) {
  CHECK(bool(op.q_norm) == bool(op.k_norm));
  if (!op.q_norm) return {};
  CHECK(op.shape.rotated() == op.shape.head_size, op.shape.rotated(), op.shape.head_size);
  return {{rows::widened_sum(op.q_norm, op.norm_offset, op.shape.head_size, scratch.weights[0]),
           rows::widened_sum(op.k_norm, op.norm_offset, op.shape.head_size, scratch.weights[1])}};
}

void forward_row(const Rotary& op, u32 row, const NormWeights& weights, Scratch& scratch) {
  const u32 size = op.shape.head_size, rotated = op.shape.rotated();
  for_heads(op.shape, row, [&](u64 at, u32 which) {
    const float* x = op.qkv.fp32() + at;
    float* y = op.out.fp32() + at;
    if (weights.of[which] != nullptr) {
      rms_norm_row(x, rms_of_row(x, op.epsilon, size), weights.of[which], nullptr, y, size);
      x = y;
    }
    rotate_row(x, scratch.cosine, scratch.sine, y, rotated / 2);
    if (x != y) std::memcpy(y + rotated, x + rotated, (size - rotated) * sizeof(float));
  });
  if (op.qkv.data == op.out.data) return;
  const u64 v = u64{row} * op.shape.columns() + u64{op.shape.heads + op.shape.kv_heads} * size;
  std::memcpy(op.out.fp32() + v, op.qkv.fp32() + v, u64{op.shape.kv_heads} * size * sizeof(float));
}

void backward_row(const RotaryBackward& op, u32 row, const NormWeights& weights, float* partials,
                  Scratch& scratch) {
  const u32 size = op.shape.head_size;
  for_heads(op.shape, row, [&](u64 at, u32 which) {
    float* dx = op.dqkv.fp32() + at;
    if (weights.of[which] == nullptr)
      return rotate_row(dx, scratch.cosine, scratch.sine, dx, op.shape.rotated() / 2);
    rotate_row(dx, scratch.cosine, scratch.sine, scratch.head, size / 2);
    const float* x = op.qkv.fp32() + at;
    rms_norm_backward_row({.x = x,
                           .weight = weights.of[which],
                           .dy = scratch.head,
                           .rstd = rms_of_row(x, op.epsilon, size),
                           .dx = dx,
                           .add_to_dx = false,
                           .dweight = partials + which * size},
                          size);
  });
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
  parallel_for(pool, Priority::normal, groups_of(op.shape.rows), [&](u32 group, u32 worker) {
    auto& scratch = *reinterpret_cast<Scratch*>(pool.scratch(worker));
    const NormWeights weights = norm_weights(op, scratch);
    float* partials = norms ? op.partials + u64{group} * 2 * op.shape.head_size : nullptr;
    if (norms) std::memset(partials, 0, u64{2} * op.shape.head_size * sizeof(float));
    for_rows(op, group, -1.0f, scratch, [&](u32 row) { backward_row(op, row, weights, partials, scratch); });
  });
  if (!norms || op.dq_norm == nullptr) return;
  parallel_for(pool, Priority::normal, 2, [&](u32 which, u32 worker) {
    sum_groups(op, which, *reinterpret_cast<Scratch*>(pool.scratch(worker)));
  });
}

}  // namespace tidepool
