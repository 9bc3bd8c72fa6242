// Reference of the rows of latent attention: the terms of the linear map from q, kv and low to the rows, in
// double; with test cases for CPU and GPUs.
#pragma once

#include <vector>

#include "kernels/latent/latent.h"
#include "tests/support/documents.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

inline constexpr LatentShape latent_shapes[] = {{.rows = 1,
                                                 .tokens = 1,
                                                 .heads = 1,
                                                 .kv_lora_rank = 1,
                                                 .qk_nope_head_dim = 1,
                                                 .qk_rope_head_dim = 2,
                                                 .v_head_dim = 1},
                                                {.rows = 66,
                                                 .tokens = 33,
                                                 .heads = 3,
                                                 .kv_lora_rank = 7,
                                                 .qk_nope_head_dim = 5,
                                                 .qk_rope_head_dim = 6,
                                                 .v_head_dim = 9,
                                                 .interleaved = true},
                                                {.rows = 40,
                                                 .tokens = 40,
                                                 .heads = 4,
                                                 .kv_lora_rank = 12,
                                                 .qk_nope_head_dim = 0,
                                                 .qk_rope_head_dim = 8,
                                                 .v_head_dim = 3,
                                                 .factor = 1.3f},
                                                {.rows = 34,
                                                 .tokens = 17,
                                                 .heads = 2,
                                                 .kv_lora_rank = 5,
                                                 .qk_nope_head_dim = 11,
                                                 .qk_rope_head_dim = 64,
                                                 .v_head_dim = 20,
                                                 .interleaved = true,
                                                 .factor = 0.7f},
                                                // Whole vectors of eight columns.
                                                {.rows = 18,
                                                 .tokens = 9,
                                                 .heads = 3,
                                                 .kv_lora_rank = 24,
                                                 .qk_nope_head_dim = 16,
                                                 .qk_rope_head_dim = 32,
                                                 .v_head_dim = 8},
                                                {.rows = 12,
                                                 .tokens = 12,
                                                 .heads = 5,
                                                 .kv_lora_rank = 16,
                                                 .qk_nope_head_dim = 8,
                                                 .qk_rope_head_dim = 48,
                                                 .v_head_dim = 40,
                                                 .interleaved = true,
                                                 .factor = 1.1f},
                                                // A tile of a longer sequence.
                                                {.rows = 21,
                                                 .tokens = 21,
                                                 .first_token = 50,
                                                 .heads = 2,
                                                 .kv_lora_rank = 16,
                                                 .qk_nope_head_dim = 8,
                                                 .qk_rope_head_dim = 16,
                                                 .v_head_dim = 8,
                                                 .interleaved = true}};

class LatentReference {
 public:
  // documents: each sequence holds several.
  LatentReference(const LatentShape& shape, bool documents) : s(shape), documents_(documents) {
    for (u32 i = 0; i < s.qk_rope_head_dim / 2; ++i)
      frequencies[i] = static_cast<float>(std::pow(1000.0, -2.0 * i / s.qk_rope_head_dim));
  }

  // `in`: q, kv and low. RETURNS: the rows [R, s.columns()].
  std::vector<double> rows(const std::vector<float> (&in)[3]) const {
    std::vector<double> out(u64{s.rows} * s.columns());
    for_terms([&](u32 row, u32 column, u32 source, u32 from, double factor) {
      out[u64{row} * s.columns() + column] += factor * in[source][u64{row} * columns[source] + from];
    });
    return out;
  }
  // Adds the gradients of q, kv and low to `d`.
  void add_gradients(const std::vector<float>& dout, std::vector<double> (&d)[3]) const {
    for_terms([&](u32 row, u32 column, u32 source, u32 from, double factor) {
      d[source][u64{row} * columns[source] + from] += factor * dout[u64{row} * s.columns() + column];
    });
  }
  // RETURNS: [R], or null.
  const i32* starts_or_null() const { return documents_ ? starts.data() : nullptr; }

  const LatentShape s;
  const std::vector<i32> starts = growing_documents(s.rows / s.tokens, s.tokens);
  const u32 columns[3] = {s.q_columns(), s.kv_columns(), s.low_columns()};
  RotaryFrequencies frequencies = {};

 private:
  // out[r, c] += factor in[r, column of its source], for each term of the map. fn(row, column of out, source:
  // 0 q, 1 kv, 2 low, its column, factor).
  template <class Fn>
  void for_terms(Fn fn) const {
    const u32 size = s.qk_nope_head_dim + s.qk_rope_head_dim;
    for (u32 row = 0; row < s.rows; ++row)
      for (u32 head = 0; head < s.heads; ++head) {
        const u32 out_q = head * size, out_k = s.q_columns() + head * size,
                  out_v = 2 * s.q_columns() + head * s.v_head_dim,
                  in_kv = head * (s.qk_nope_head_dim + s.v_head_dim);
        for (u32 c = 0; c < s.qk_nope_head_dim; ++c) {
          fn(row, out_q + c, 0, head * size + c, 1.0);
          fn(row, out_k + c, 1, in_kv + c, 1.0);
        }
        for (u32 c = 0; c < s.v_head_dim; ++c) fn(row, out_v + c, 1, in_kv + s.qk_nope_head_dim + c, 1.0);
        turn(row, out_q + s.qk_nope_head_dim, 0, head * size + s.qk_nope_head_dim, fn);
        turn(row, out_k + s.qk_nope_head_dim, 2, s.kv_lora_rank, fn);
      }
  }
  template <class Fn>
  void turn(u32 row, u32 to, u32 source, u32 from, Fn fn) const {
    const u32 position = s.first_token + row % s.tokens - (documents_ ? u32(starts[row]) : 0),
              half = s.qk_rope_head_dim / 2;
    for (u32 i = 0; i < half; ++i) {
      const double angle = float(position) * frequencies[i];  // in fp32, as models do
      const double cosine = s.factor * std::cos(angle), sine = s.factor * std::sin(angle);
      const u32 a = from + (s.interleaved ? 2 * i : i), b = from + (s.interleaved ? 2 * i + 1 : i + half);
      fn(row, to + i, source, a, cosine), fn(row, to + i, source, b, -sine);
      fn(row, to + i + half, source, b, cosine), fn(row, to + i + half, source, a, sine);
    }
  }

  const bool documents_;
};

}  // namespace tidepool::test
