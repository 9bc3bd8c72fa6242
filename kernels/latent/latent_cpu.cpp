// Rows of latent attention on the CPU, a group of rows per task.
#include "kernels/latent/latent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

struct LatentAngles {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
};

void check_latent(const LatentShape& s) {
  CHECK(s.qk_rope_head_dim % 2 == 0 && s.qk_rope_head_dim / 2 <= rotary_pairs_max, s.qk_rope_head_dim);
  CHECK(s.rows == 0 || (s.tokens > 0 && s.rows % s.tokens == 0), s.rows, s.tokens);
}

// Calls fn(row) for each row of each group, groups in parallel.
template <class Fn>
void for_latent_rows(u32 rows, CorePool& pool, Fn fn) {
  parallel_for(pool, Priority::normal, static_cast<u32>(div_up(rows, latent_group_rows)),
               [&](u32 group, u32) {
                 const u32 end = std::min((group + 1) * latent_group_rows, rows);
                 for (u32 row = group * latent_group_rows; row < end; ++row) fn(row);
               });
}

// `op`: LatentRows or LatentRowsBackward.
template <class Op>
LatentAngles latent_angles(const Op& op, u32 row) {
  const u32 token = op.shape.first_token + row % op.shape.tokens;
  const u32 start = op.starts != nullptr ? static_cast<u32>(op.starts[row]) : 0;
  CHECK(start <= token, start, token);
  const float position = static_cast<float>(token - start);
  LatentAngles out;
  for (u32 i = 0; i < op.shape.qk_rope_head_dim / 2; ++i) {
    const float angle = position * op.inverse_frequencies[i];
    out.cosine[i] = op.shape.factor * std::cos(angle);
    out.sine[i] = op.shape.factor * std::sin(angle);
  }
  return out;
}

// Columns of x's pair i.
struct Pair {
  Pair(const LatentShape& s, u32 i)
      : first(s.interleaved ? 2 * i : i), second(s.interleaved ? 2 * i + 1 : i + s.qk_rope_head_dim / 2) {}
  u32 first, second;
};

void rotate_columns(const LatentShape& s, const LatentAngles& angles, const float* x, float* y) {
  const u32 half = s.qk_rope_head_dim / 2;
  for (u32 i = 0; i < half; ++i) {
    const Pair pair(s, i);
    const float a = x[pair.first], b = x[pair.second];
    y[i] = a * angles.cosine[i] - b * angles.sine[i];
    y[i + half] = b * angles.cosine[i] + a * angles.sine[i];
  }
}

// dx and dy do not overlap.
void rotate_columns_back(const LatentShape& s, const LatentAngles& angles, const float* dy, float* dx) {
  const u32 half = s.qk_rope_head_dim / 2;
  for (u32 i = 0; i < half; ++i) {
    const Pair pair(s, i);
    const float a = dy[i], b = dy[i + half];
    dx[pair.first] = a * angles.cosine[i] + b * angles.sine[i];
    dx[pair.second] = b * angles.cosine[i] - a * angles.sine[i];
  }
}

void copy(float* y, const float* x, u32 n) { std::memcpy(y, x, n * sizeof(float)); }

void join_row(const LatentRows& op, u32 row) {
  const LatentShape& s = op.shape;
  const LatentAngles angles = latent_angles(op, row);
  const u32 size = s.qk_nope_head_dim + s.qk_rope_head_dim;
  const float* q = op.q.fp32() + u64{row} * s.q_columns();
  const float* kv = op.kv.fp32() + u64{row} * s.kv_columns();
  float shared[2 * rotary_pairs_max];
  rotate_columns(s, angles, op.low.fp32() + u64{row} * s.low_columns() + s.kv_lora_rank, shared);
  float* out_q = op.out.fp32() + u64{row} * s.columns();
  float *out_k = out_q + s.q_columns(), *out_v = out_k + s.q_columns();
  for (u32 head = 0; head < s.heads; ++head) {
    copy(out_q, q, s.qk_nope_head_dim);
    rotate_columns(s, angles, q + s.qk_nope_head_dim, out_q + s.qk_nope_head_dim);
    copy(out_k, kv, s.qk_nope_head_dim);
    copy(out_k + s.qk_nope_head_dim, shared, s.qk_rope_head_dim);
    copy(out_v, kv + s.qk_nope_head_dim, s.v_head_dim);
    q += size, out_q += size, out_k += size;
    kv += s.qk_nope_head_dim + s.v_head_dim, out_v += s.v_head_dim;
  }
}

void split_row(const LatentRowsBackward& op, u32 row) {
  const LatentShape& s = op.shape;
  const LatentAngles angles = latent_angles(op, row);
  const u32 size = s.qk_nope_head_dim + s.qk_rope_head_dim;
  float* dq = op.dq.fp32() + u64{row} * s.q_columns();
  float* dkv = op.dkv.fp32() + u64{row} * s.kv_columns();
  const float* from_q = op.dout.fp32() + u64{row} * s.columns();
  const float *from_k = from_q + s.q_columns(), *from_v = from_k + s.q_columns();
  float shared[2 * rotary_pairs_max] = {};
  for (u32 head = 0; head < s.heads; ++head) {
    copy(dq, from_q, s.qk_nope_head_dim);
    rotate_columns_back(s, angles, from_q + s.qk_nope_head_dim, dq + s.qk_nope_head_dim);
    copy(dkv, from_k, s.qk_nope_head_dim);
    rows::add(shared, from_k + s.qk_nope_head_dim, s.qk_rope_head_dim);
    copy(dkv + s.qk_nope_head_dim, from_v, s.v_head_dim);
    dq += size, from_q += size, from_k += size;
    dkv += s.qk_nope_head_dim + s.v_head_dim, from_v += s.v_head_dim;
  }
  rotate_columns_back(s, angles, shared, op.dlow.fp32() + u64{row} * s.low_columns() + s.kv_lora_rank);
}

}  // namespace

void latent_rows_cpu(const LatentRows& op, CorePool& pool) {
  check_latent(op.shape);
  for_latent_rows(op.shape.rows, pool, [&](u32 row) { join_row(op, row); });
}

void latent_rows_backward_cpu(const LatentRowsBackward& op, CorePool& pool) {
  check_latent(op.shape);
  for_latent_rows(op.shape.rows, pool, [&](u32 row) { split_row(op, row); });
}

void copy_columns_cpu(const CopyColumns& op, CorePool& pool) {
  CHECK(op.columns <= op.x_stride && op.columns <= op.y_stride, op.columns, op.x_stride, op.y_stride);
  for_latent_rows(op.rows, pool, [&](u32 row) {
    float* y = op.y.fp32() + u64{row} * op.y_stride;
    if (op.add) return rows::add(y, op.x.fp32() + u64{row} * op.x_stride, op.columns);
    const float* x = rows::widened(op.x.at(u64{row} * op.x_stride), op.columns, y);
    if (x != y) copy(y, x, op.columns);
  });
}

}  // namespace tidepool
