// One head of the rule on cores: its chunks one after the other, by small products in fp32.
#include "kernels/delta_rule/delta_head.h"

#include <cmath>
#include <cstring>

#include "kernels/delta_rule/delta_rows.h"
#include "kernels/matmul/sgemm.h"

namespace tidepool {
namespace {

// y = factor x / |x|. RETURNS: 1 / |x|.
float unit_row(const float* x, float factor, float* y, u32 n) {
  const float rstd = 1.0f / std::sqrt(delta_rows::dot(x, x, n) + delta_length_epsilon);
  delta_rows::scaled(x, factor * rstd, y, n);
  return rstd;
}

void load_chunk(const DeltaPlace& place, const DeltaInputs& in, const DeltaChunk& chunk, DeltaScratch& s) {
  const u32 size = place.shape.key_size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float sum = 0;
  for (u32 i = 0; i < chunk.count; ++i) {
    const u32 token = chunk.begin + i;
    const float step = softplus(in.projected[place.a(token)] + in.dt_bias);
    if (place.shape.corrects()) {
      s.q_rstd[i] = unit_row(in.qkv + place.q(token), scale, s.q + i * size, size);
      s.k_rstd[i] = unit_row(in.qkv + place.k(token), 1, s.k + i * size, size);
      s.beta[i] = 1.0f / (1.0f + std::exp(-in.projected[place.b(token)]));
      s.g[i] = in.rate * step;
    } else {
      std::memcpy(s.q + i * size, in.qkv + place.q(token), size * sizeof(float));
      std::memcpy(s.k + i * size, in.qkv + place.k(token), size * sizeof(float));
      s.beta[i] = std::min(std::max(step, in.steps.least), in.steps.most);
      s.g[i] = in.rate * s.beta[i];
    }
    sum += s.g[i];
    s.gamma[i] = std::exp(sum);
  }
}

// D and k_end. A span of g is summed by itself: a difference of sums from the chunk's beginning would lose
// the digits of short spans behind long ones. Every exponent is at most 0.
void make_decays(u32 n, u32 size, DeltaScratch& s) {
  float spans[delta_chunk_tokens];
  for (u32 i = 0; i < n; ++i) {
    float* d = s.d + i * delta_pitch;
    delta_rows::decays(spans, s.g[i], d, i);
    spans[i] = 0, d[i] = 1;
    std::memset(d + i + 1, 0, (n - i - 1) * sizeof(float));
  }
  for (u32 j = 0; j < n; ++j) delta_rows::scaled(s.k + j * size, s.to_end(n)[j], s.k_end + j * size, size);
}

// B and P.
void make_pairs(const DeltaShape& shape, u32 n, DeltaScratch& s) {
  const u32 size = shape.key_size;
  const auto product = [&](const float* a, float* c) {
    sgemm({.transpose_b = true,
           .m = n,
           .n = n,
           .k = size,
           .a = a,
           .lda = size,
           .b = s.k,
           .ldb = size,
           .c = c,
           .ldc = delta_pitch});
  };
  product(s.q, s.p);
  for (u32 i = 0; i < n; ++i) {
    float* p = s.p + i * delta_pitch;
    delta_rows::multiply(p, s.d + i * delta_pitch, p, i + 1);
    std::memset(p + i + 1, 0, (n - i - 1) * sizeof(float));
  }
  if (!shape.corrects()) return;
  product(s.k, s.b);
  for (u32 i = 0; i < n; ++i) {
    float* b = s.b + i * delta_pitch;
    delta_rows::multiply(b, s.d + i * delta_pitch, b, i);
    std::memset(b + i, 0, (n - i) * sizeof(float));
  }
}

// U, and W.
void make_values(const DeltaPlace& place, const DeltaInputs& in, const DeltaChunk& chunk, DeltaScratch& s) {
  const u32 n = chunk.count, size = place.shape.value_size;
  const bool corrected = place.shape.corrects() && !chunk.first;
  if (corrected)
    sgemm({.m = n,
           .n = size,
           .k = place.shape.key_size,
           .a = s.k,
           .lda = place.shape.key_size,
           .b = s.state,
           .ldb = size,
           .c = s.ks,
           .ldc = size});
  for (u32 i = 0; i < n; ++i) {
    float *u = s.u + i * size, *w = s.w + i * size;
    std::memcpy(u, in.qkv + place.v(chunk.begin + i), size * sizeof(float));
    if (corrected) delta_rows::add_scaled(u, s.ks + i * size, -s.gamma[i], size);
    delta_rows::scaled(u, s.beta[i], w, size);
  }
  if (place.shape.corrects()) solve_delta_rows(s, n, size, s.w);
}

}  // namespace

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Rows are solved in blocks: a product takes away the rows of the blocks before.
constexpr u32 solve_block = 16;

void solve_delta_rows(const DeltaScratch& s, u32 n, u32 columns, float* x) {
  float factors[solve_block * delta_pitch];
  for (u32 begin = 0; begin < n; begin += solve_block) {
    const u32 rows = std::min(solve_block, n - begin);
    for (u32 i = 0; i < rows; ++i)
      delta_rows::scaled(s.b + (begin + i) * delta_pitch, s.beta[begin + i], factors + i * delta_pitch,
                         begin + i);
    if (begin > 0)
      sgemm({.m = rows,
             .n = columns,
             .k = begin,
             .a = factors,
             .lda = delta_pitch,
             .b = x,
             .ldb = columns,
             .c = x + begin * columns,
             .ldc = columns,
             .scale = -1,
             .accumulate = true});
    for (u32 i = 0; i < rows; ++i)
      for (u32 j = 0; j < i; ++j)
        delta_rows::add_scaled(x + (begin + i) * columns, x + (begin + j) * columns,
                               -factors[i * delta_pitch + begin + j], columns);
  }
}

void solve_delta_rows_transposed(const DeltaScratch& s, u32 n, u32 columns, float* x) {
  float factors[solve_block * delta_pitch];
  for (u32 begin = round_up(n, solve_block) - solve_block;; begin -= solve_block) {
    const u32 rows = std::min(solve_block, n - begin);
    for (u32 i = rows; i-- > 0;)
      for (u32 j = 0; j < i; ++j)
        delta_rows::add_scaled(x + (begin + j) * columns, x + (begin + i) * columns,
                               -s.beta[begin + i] * s.b[(begin + i) * delta_pitch + begin + j], columns);
    if (begin == 0) return;
    for (u32 i = 0; i < rows; ++i)
      delta_rows::scaled(s.b + (begin + i) * delta_pitch, s.beta[begin + i], factors + i * delta_pitch,
                         begin);
    sgemm({.transpose_a = true,
           .m = begin,
           .n = columns,
           .k = rows,
           .a = factors,
           .lda = delta_pitch,
           .b = x + begin * columns,
           .ldb = columns,
           .c = x,
           .ldc = columns,
           .scale = -1,
           .accumulate = true});
  }
}

void compute_delta_chunk(const DeltaPlace& place, const DeltaInputs& in, const DeltaChunk& chunk,
                         DeltaScratch& s) {
  load_chunk(place, in, chunk, s);
  make_decays(chunk.count, place.shape.key_size, s);
  make_pairs(place.shape, chunk.count, s);
  make_values(place, in, chunk, s);
}

void advance_delta_state(const DeltaShape& shape, const DeltaChunk& chunk, DeltaScratch& s) {
  if (!chunk.first)
    delta_rows::scaled(s.state, s.gamma[chunk.count - 1], s.state, u64{shape.key_size} * shape.value_size);
  sgemm({.transpose_a = true,
         .m = shape.key_size,
         .n = shape.value_size,
         .k = chunk.count,
         .a = s.k_end,
         .lda = shape.key_size,
         .b = s.w,
         .ldb = shape.value_size,
         .c = s.state,
         .ldc = shape.value_size,
         .accumulate = !chunk.first});
}

}  // namespace tidepool
