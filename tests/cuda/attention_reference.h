// Reference of attention by definition, in double, with T x T probabilities.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"

namespace tidepool::test {

struct AttentionResults {
  std::vector<float> out, lse, dq, dk, dv;
  std::vector<float> dsinks;  // empty: no sinks
};

// One head's rows in arrays [B, T, stride], starting at column `column`.
struct ReferenceRows {
  const float* first;
  u64 stride;
  double operator()(u32 row, u32 i) const { return first[row * stride + i]; }
};

// `stored_out` is backward's input as the model stored it; delta is computed from it.
inline void reference_head(const AttentionShape& s, u32 head, const std::vector<float>& qkv,
                           const std::vector<float>& dout, const std::vector<float>* stored_out,
                           const Dropout& dropout, const i32* starts, const std::vector<float>& sinks,
                           const KeyHole* holes, AttentionResults& r) {
  const u32 size = s.head_size, width = s.value_size != 0 ? s.value_size : size, t = s.tokens;
  const u32 queries = s.heads * size, keys = s.key_heads() * size, values = s.key_heads() * width;
  const u32 of_sequence = head % s.heads, kv_head = of_sequence / s.group(), outs = s.heads * width;
  const u64 first = u64{head / s.heads} * t, stride = queries + keys + values;
  const auto of_qkv = [&](u64 from) { return ReferenceRows{&qkv[first * stride + from], stride}; };
  const ReferenceRows q = of_qkv(of_sequence * size), k = of_qkv(queries + kv_head * size),
                      v = of_qkv(queries + keys + kv_head * width),
                      g = {&dout[first * outs + of_sequence * width], outs};
  const double root = std::sqrt(double(s.scale_size != 0 ? s.scale_size : size));
  const double scale = s.scale_given != 0 ? s.scale_given : 1 / root;
  const auto out_at = [&](u32 row, u32 c) { return (first + row) * outs + of_sequence * width + c; };
  std::vector<double> dq(u64{t} * size), dk(dq), dv(u64{t} * width), p(t), kept(t), slope(t), y(width);
  std::vector<float> ones(t, 1.0f), factors(t);
  for (u32 i = 0; i < t; ++i) {
    if (dropout.on()) dropout_row(dropout, (u64{head} * t + i) * t, ones.data(), factors.data(), i + 1);
    const u32 document = starts == nullptr ? 0 : static_cast<u32>(starts[first + i]);
    const u32 begin = s.window != 0 && i >= document + s.window ? i + 1 - s.window : document;
    const double sink = sinks.empty() ? -1e300 : sinks[of_sequence];
    double sum = 0, top = sink, delta = 0;
    const KeyHole hole = holes == nullptr ? KeyHole{} : holes[first + i];
    for (u32 j = begin; j <= i; ++j) {
      p[j] = 0;
      for (u32 c = 0; c < size; ++c) p[j] += q(i, c) * k(j, c);
      p[j] *= scale;
      const double tanh = s.cap != 0 ? std::tanh(p[j] / s.cap) : 0;
      slope[j] = 1 - tanh * tanh;
      if (s.cap != 0) p[j] = s.cap * tanh;
      top = std::max(top, p[j]);
    }
    for (u32 j = begin; j <= i; ++j) sum += p[j] = hole.hides(j) ? 0 : std::exp(p[j] - top);
    const double likely_sink = std::exp(sink - top) / (sum += std::exp(sink - top));
    y.assign(width, 0.0);
    for (u32 j = begin; j <= i; ++j) {
      p[j] /= sum;
      kept[j] = p[j] * (dropout.on() ? factors[j] : 1.0f);
      for (u32 c = 0; c < width; ++c) y[c] += kept[j] * v(j, c);
    }
    for (u32 c = 0; c < width; ++c) {
      r.out[out_at(i, c)] = static_cast<float>(y[c]);
      delta += g(i, c) * (stored_out != nullptr ? (*stored_out)[out_at(i, c)] : y[c]);
    }
    if (!sinks.empty()) r.dsinks[of_sequence] -= static_cast<float>(likely_sink * delta);
    r.lse[u64{head} * t + i] = static_cast<float>(top + std::log(sum));
    for (u32 j = begin; j <= i; ++j) {
      double dp = 0;
      for (u32 c = 0; c < width; ++c) dp += g(i, c) * v(j, c);
      const double ds = scale * slope[j] * p[j] * (dp * (dropout.on() ? factors[j] : 1.0f) - delta);
      for (u32 c = 0; c < size; ++c) {
        dq[u64{i} * size + c] += ds * k(j, c);
        dk[u64{j} * size + c] += ds * q(i, c);
      }
      for (u32 c = 0; c < width; ++c) dv[u64{j} * width + c] += kept[j] * g(i, c);
    }
  }
  for (u32 i = 0; i < t; ++i) {
    for (u32 c = 0; c < size; ++c) {
      r.dq[(first + i) * queries + of_sequence * size + c] = static_cast<float>(dq[u64{i} * size + c]);
      r.dk[(first + i) * keys + kv_head * size + c] += static_cast<float>(dk[u64{i} * size + c]);
    }
    for (u32 c = 0; c < width; ++c)
      r.dv[(first + i) * values + kv_head * width + c] += static_cast<float>(dv[u64{i} * width + c]);
  }
}

inline AttentionResults attention_reference(const AttentionShape& s, const std::vector<float>& qkv,
                                            const std::vector<float>& dout,
                                            const std::vector<float>* stored_out, const Dropout& dropout,
                                            const i32* starts = nullptr, const std::vector<float>& sinks = {},
                                            const KeyHole* holes = nullptr) {
  AttentionResults r;
  r.dsinks.resize(sinks.size());
  r.lse.resize(s.lse_elements());
  const u64 rows = u64{s.sequences} * s.tokens, width = s.value_size != 0 ? s.value_size : s.head_size;
  r.out.resize(dout.size());
  r.dq.resize(rows * s.heads * s.head_size);
  r.dk.resize(rows * s.key_heads() * s.head_size);
  r.dv.resize(rows * s.key_heads() * width);
  for (u32 head = 0; head < s.sequences * s.heads; ++head)
    reference_head(s, head, qkv, dout, stored_out, dropout, starts, sinks, holes, r);
  return r;
}

}  // namespace tidepool::test
