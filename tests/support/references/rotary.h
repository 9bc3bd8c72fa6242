// Reference of rotation with norms, by definition, in double, one head at a time; with test cases for CPU and
// GPUs.
#pragma once

#include <span>
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
    {{.rows = 9, .tokens = 9, .heads = 2, .kv_heads = 1, .head_size = 256}, true, false, 1.0f}};

struct RotaryData {
  explicit RotaryData(const RotaryCase& c)
      : qkv(random_floats(u64{c.shape.rows} * c.shape.columns(), 1)),
        dout(random_floats(qkv.size(), 2)),
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
            .k_norm = c.norms ? param_of(k_norm) : Param(),
            .norm_offset = c.norm_offset,
            .epsilon = 1e-5f};
  }
  // Backward without the norms' gradients.
  RotaryBackward backward(const RotaryCase& c, ConstValues from, Values dqkv) const {
    return {.shape = c.shape,
            .qkv = c.norms ? from : ConstValues(),
            .dqkv = dqkv,
            .starts = starts.empty() ? nullptr : starts.data(),
            .inverse_frequencies = frequencies,
            .q_norm = c.norms ? param_of(q_norm) : Param(),
            .k_norm = c.norms ? param_of(k_norm) : Param(),
            .norm_offset = c.norm_offset,
            .epsilon = 1e-5f,
            .accumulate = false};
  }

  std::vector<float> qkv, dout, q_norm, k_norm;
  std::vector<i32> starts;
  RotaryFrequencies frequencies = {};
};

struct RotaryReference {
  std::vector<double> out, dqkv, dq_norm, dk_norm;
};

inline RotaryReference rotary_reference(const RotaryCase& c, const RotaryData& d) {
  const RotaryShape& s = c.shape;
  const u32 size = s.head_size, half = s.rotated() / 2;
  RotaryReference r = {{d.qkv.begin(), d.qkv.end()},
                       {d.dout.begin(), d.dout.end()},
                       std::vector<double>(size, 0.0),
                       std::vector<double>(size, 0.0)};
  for (u32 row = 0; row < s.rows; ++row) {
    const u32 position = row % s.tokens - (d.starts.empty() ? 0 : static_cast<u32>(d.starts[row]));
    for (u32 head = 0; head < s.heads + s.kv_heads; ++head) {
      const u64 at = u64{row} * s.columns() + u64{head} * size;
      std::vector<double> x(&d.qkv[at], &d.qkv[at] + size), rotated_back(&r.dqkv[at], &r.dqkv[at] + size);
      std::vector<float> dy(size);
      const auto turn = [&](const double* from, double* to, double direction) {
        for (u32 i = 0; i < half; ++i) {
          const double angle = static_cast<float>(position) * d.frequencies[i];  // in fp32, as models do
          const double cosine = std::cos(angle), sine = direction * std::sin(angle);
          const double a = from[i], b = from[i + half];
          to[i] = a * cosine - b * sine;
          to[i + half] = b * cosine + a * sine;
        }
      };
      turn(&r.dqkv[at], rotated_back.data(), -1);
      if (c.norms) {
        const bool of_q = head < s.heads;
        for (u32 i = 0; i < size; ++i) dy[i] = static_cast<float>(rotated_back[i]);
        std::vector<float> weight = of_q ? d.q_norm : d.k_norm;
        for (float& w : weight) w += c.norm_offset;
        norm_reference({&d.qkv[at], size}, weight, 1e-5, dy, x.data(), &r.dqkv[at],
                       of_q ? r.dq_norm.data() : r.dk_norm.data());
      } else {
        std::copy(rotated_back.begin(), rotated_back.end(), &r.dqkv[at]);
      }
      turn(x.data(), &r.out[at], 1);
    }
  }
  return r;
}

}  // namespace tidepool::test
