// Reference of the gated delta rule and of Mamba-2: their three steps token by token, forward and backward,
// in double; with test cases for CPU and GPUs.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/delta_rule/delta_rule.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

inline constexpr DeltaShape delta_shapes[] = {{.sequences = 1,
                                               .tokens = 1,
                                               .key_heads = 1,
                                               .value_heads = 1,
                                               .key_size = 1,
                                               .value_size = 1,
                                               .taps = 1},
                                              {.sequences = 2,
                                               .tokens = 7,
                                               .key_heads = 1,
                                               .value_heads = 2,
                                               .key_size = 3,
                                               .value_size = 5,
                                               .taps = 4},
                                              {.sequences = 1,
                                               .tokens = 65,
                                               .key_heads = 2,
                                               .value_heads = 2,
                                               .key_size = 8,
                                               .value_size = 4,
                                               .taps = 4},
                                              {.sequences = 2,
                                               .tokens = 200,
                                               .key_heads = 2,
                                               .value_heads = 6,
                                               .key_size = 12,
                                               .value_size = 20,
                                               .taps = 3,
                                               .by_key_head = true},
                                              {.sequences = 1,
                                               .tokens = 300,
                                               .key_heads = 1,
                                               .value_heads = 2,
                                               .key_size = 32,
                                               .value_size = 48,
                                               .taps = 4,
                                               .by_key_head = true},
                                              {.sequences = 1,
                                               .tokens = 130,
                                               .key_heads = 1,
                                               .value_heads = 1,
                                               .key_size = 136,
                                               .value_size = 144,
                                               .taps = 8}};
inline constexpr DeltaShape mamba_shapes[] = {{.sequences = 1,
                                               .tokens = 1,
                                               .key_heads = 1,
                                               .value_heads = 1,
                                               .key_size = 1,
                                               .value_size = 1,
                                               .taps = 1,
                                               .rule = StateRule::mamba},
                                              {.sequences = 2,
                                               .tokens = 7,
                                               .key_heads = 1,
                                               .value_heads = 2,
                                               .key_size = 3,
                                               .value_size = 5,
                                               .taps = 4,
                                               .rule = StateRule::mamba},
                                              {.sequences = 1,
                                               .tokens = 65,
                                               .key_heads = 2,
                                               .value_heads = 2,
                                               .key_size = 8,
                                               .value_size = 4,
                                               .taps = 4,
                                               .rule = StateRule::mamba},
                                              {.sequences = 2,
                                               .tokens = 200,
                                               .key_heads = 2,
                                               .value_heads = 6,
                                               .key_size = 12,
                                               .value_size = 20,
                                               .taps = 3,
                                               .rule = StateRule::mamba},
                                              {.sequences = 1,
                                               .tokens = 300,
                                               .key_heads = 1,
                                               .value_heads = 36,
                                               .key_size = 24,
                                               .value_size = 40,
                                               .taps = 4,
                                               .rule = StateRule::mamba},
                                              {.sequences = 1,
                                               .tokens = 130,
                                               .key_heads = 1,
                                               .value_heads = 1,
                                               .key_size = 136,
                                               .value_size = 144,
                                               .taps = 8,
                                               .rule = StateRule::mamba}};
inline constexpr StepLimits mamba_steps = {.least = 0.01f, .most = 2.5f};

using Doubles = std::vector<double>;

// Gates from near 0 to near 1, decays from none to all.
struct DeltaArrays {
  explicit DeltaArrays(const DeltaShape& s, u32 seed = 1)
      : projected(random_floats(u64{s.rows()} * s.columns(), seed)),
        qkv(random_floats(u64{s.rows()} * s.channels(), seed + 1)),
        weight(random_floats(u64{s.channels()} * s.taps, seed + 2)),
        a_log(random_floats(s.value_heads, seed + 3, 3.0f)),
        dt_bias(random_floats(s.value_heads, seed + 4)),
        norm(random_floats(s.value_size, seed + 5)),
        dout(random_floats(u64{s.rows()} * s.value_columns(), seed + 6)),
        dqkv(random_floats(u64{s.rows()} * s.channels(), seed + 7)),
        x(random_floats(u64{s.rows()} * s.value_columns(), seed + 8)),
        bias(random_floats(s.channels(), seed + 9)),
        skip(random_floats(s.value_heads, seed + 10)),
        group_norm(random_floats(s.value_columns(), seed + 11)) {
    for (u32 row = 0; row < s.rows(); ++row)
      for (u32 head = 0; head < s.value_heads; ++head) {
        if (s.corrects()) projected[u64{row} * s.columns() + s.b(head)] *= 12;
        projected[u64{row} * s.columns() + s.a(head)] *= 6;
      }
  }
  std::vector<float> projected, qkv, weight, a_log, dt_bias, norm, dout, dqkv, x;
  std::vector<float> bias, skip, group_norm;  // Mamba-2 only
};

struct DeltaReference {
  // `documents`: sequences are packed with documents of several lengths, one of a single token.
  explicit DeltaReference(const DeltaShape& shape, bool documents = false) : s(shape) {
    if (!documents) return;
    starts.resize(s.rows());
    for (u32 row = 0; row < s.rows(); ++row) {
      const u32 token = row % s.tokens;
      starts[row] = 0;
      for (const u32 begin : {2u, 3u, 71u, 200u})
        if (token >= begin && begin < s.tokens) starts[row] = static_cast<i32>(begin);
    }
  }

  u32 document(u32 row) const { return starts.empty() ? 0 : static_cast<u32>(starts[row]); }
  const i32* starts_or_null() const { return starts.empty() ? nullptr : starts.data(); }
  u32 channel_column(u32 c) const {
    const u32 keys = s.key_columns();
    if (!s.corrects()) return s.z(0) + s.value_columns() + c;
    if (c < keys) return s.q(c / s.key_size) + c % s.key_size;
    if (c < 2 * keys) return s.k((c - keys) / s.key_size) + (c - keys) % s.key_size;
    return s.v((c - 2 * keys) / s.value_size) + (c - 2 * keys) % s.value_size;
  }
  // Calls fn(row, channel, tap, row that it reads).
  template <class Fn>
  void for_taps(Fn fn) const {
    for (u32 row = 0; row < s.rows(); ++row)
      for (u32 c = 0; c < s.channels(); ++c)
        for (u32 tap = 0; tap < s.taps; ++tap) {
          const u32 back = s.taps - 1 - tap;
          if (row % s.tokens >= document(row) + back) fn(row, c, tap, row - back);
        }
  }
  static double logistic(double x) { return 1 / (1 + std::exp(-x)); }
  static double silu(double x) { return x * logistic(x); }
  static double silu_slope(double x) {
    const double g = logistic(x);
    return g + x * g * (1 - g);
  }

  // `bias`: of each channel, or empty.
  Doubles sums(const std::vector<float>& projected, const std::vector<float>& weight,
               const std::vector<float>& bias = {}) const {
    Doubles out(u64{s.rows()} * s.channels());
    for (u64 i = 0; i < out.size() && !bias.empty(); ++i) out[i] = bias[i % s.channels()];
    for_taps([&](u32 row, u32 c, u32 tap, u32 from) {
      out[u64{row} * s.channels() + c] +=
          double{weight[c * s.taps + tap]} * projected[u64{from} * s.columns() + channel_column(c)];
    });
    return out;
  }
  Doubles convolution(const std::vector<float>& projected, const std::vector<float>& weight,
                      const std::vector<float>& bias = {}) const {
    Doubles out = sums(projected, weight, bias);
    for (double& x : out) x = silu(x);
    return out;
  }
  // Adds to dprojected and dweight.
  void convolution_backward(const std::vector<float>& projected, const std::vector<float>& weight,
                            const std::vector<float>& dy, Doubles& dprojected, Doubles& dweight,
                            const std::vector<float>& bias = {}, Doubles* dbias = nullptr) const {
    const Doubles sum = sums(projected, weight, bias);
    for (u64 at = 0; at < dy.size() && dbias != nullptr; ++at)
      (*dbias)[at % s.channels()] += dy[at] * silu_slope(sum[at]);
    for_taps([&](u32 row, u32 c, u32 tap, u32 from) {
      const u64 at = u64{row} * s.channels() + c, x = u64{from} * s.columns() + channel_column(c);
      const double ds = dy[at] * silu_slope(sum[at]);
      dprojected[x] += ds * weight[c * s.taps + tap];
      dweight[c * s.taps + tap] += ds * projected[x];
    });
  }

  // The recurrence of one value head of one sequence.
  struct Head {
    std::vector<Doubles> q, k, v, states, corrections;  // by token; states before the token, already decayed
    Doubles beta, decay, q_length, k_length;
  };
  struct Parameters {
    const std::vector<float>&qkv, &projected, &a_log, &dt_bias;
    const std::vector<float>* skip = nullptr;  // Mamba-2 only
  };
  Doubles unit(const std::vector<float>& x, u64 at, double scale, double& length) const {
    double square = 0;
    for (u32 i = 0; i < s.key_size; ++i) square += double{x[at + i]} * x[at + i];
    length = std::sqrt(square + 1e-6);
    Doubles out(s.key_size);
    for (u32 i = 0; i < s.key_size; ++i) out[i] = scale * x[at + i] / length;
    return out;
  }
  u64 q_at(u32 row, u32 head) const {
    const u32 before = s.corrects() ? 0 : s.value_columns() + s.key_columns();
    return u64{row} * s.channels() + before + head / s.heads_per_key() * s.key_size;
  }
  u64 k_at(u32 row, u32 head) const {
    return s.corrects() ? q_at(row, head) + s.key_columns() : q_at(row, head) - s.key_columns();
  }
  u64 v_at(u32 row, u32 head) const {
    return u64{row} * s.channels() + (s.corrects() ? 2 * s.key_columns() : 0) + head * s.value_size;
  }
  Doubles as_it_is(const std::vector<float>& x, u64 at) const {
    return {x.begin() + static_cast<i64>(at), x.begin() + static_cast<i64>(at + s.key_size)};
  }
  // Writes the head's columns of `out` [R, NV DV].
  Head recurrence(const Parameters& p, u32 sequence, u32 head, Doubles& out) const {
    Head h;
    h.beta.resize(s.tokens), h.decay.resize(s.tokens), h.q_length.resize(s.tokens),
        h.k_length.resize(s.tokens);
    Doubles state(u64{s.key_size} * s.value_size);
    for (u32 t = 0; t < s.tokens; ++t) {
      const u32 row = sequence * s.tokens + t;
      const u64 line = u64{row} * s.columns();
      if (document(row) == t) std::fill(state.begin(), state.end(), 0.0);
      if (s.corrects()) {
        h.q.push_back(unit(p.qkv, q_at(row, head), 1 / std::sqrt(double(s.key_size)), h.q_length[t]));
        h.k.push_back(unit(p.qkv, k_at(row, head), 1, h.k_length[t]));
      } else {
        h.q.push_back(as_it_is(p.qkv, q_at(row, head)));
        h.k.push_back(as_it_is(p.qkv, k_at(row, head)));
      }
      h.v.emplace_back(p.qkv.begin() + static_cast<i64>(v_at(row, head)),
                       p.qkv.begin() + static_cast<i64>(v_at(row, head) + s.value_size));
      const double x = double{p.projected[line + s.a(head)]} + p.dt_bias[head];
      double step = std::log1p(std::exp(x));
      if (!s.corrects()) step = std::clamp(step, double{mamba_steps.least}, double{mamba_steps.most});
      h.beta[t] = s.corrects() ? logistic(p.projected[line + s.b(head)]) : step;
      h.decay[t] = -std::exp(double{p.a_log[head]}) * step;
      for (double& e : state) e *= std::exp(h.decay[t]);
      h.states.push_back(state);
      Doubles correction(s.value_size);
      for (u32 j = 0; j < s.value_size; ++j) {
        double seen = 0;
        for (u32 i = 0; i < s.key_size && s.corrects(); ++i) seen += state[i * s.value_size + j] * h.k[t][i];
        correction[j] = h.v[t][j] - seen;
      }
      for (u32 i = 0; i < s.key_size; ++i)
        for (u32 j = 0; j < s.value_size; ++j) {
          state[i * s.value_size + j] += h.k[t][i] * h.beta[t] * correction[j];
          out[u64{row} * s.value_columns() + head * s.value_size + j] +=
              state[i * s.value_size + j] * h.q[t][i];
        }
      for (u32 j = 0; j < s.value_size && !s.corrects(); ++j)
        out[u64{row} * s.value_columns() + head * s.value_size + j] += double{(*p.skip)[head]} * h.v[t][j];
      h.corrections.push_back(correction);
    }
    return h;
  }
  Doubles rule(const Parameters& p) const {
    Doubles out(u64{s.rows()} * s.value_columns());
    for (u32 b = 0; b < s.sequences; ++b)
      for (u32 head = 0; head < s.value_heads; ++head) recurrence(p, b, head, out);
    return out;
  }

  struct Gradients {
    Doubles qkv, projected, a_log, dt_bias, skip;
  };
  Gradients rule_backward(const Parameters& p, const std::vector<float>& dout) const {
    Gradients g = {Doubles(p.qkv.size()), Doubles(p.projected.size()), Doubles(s.value_heads),
                   Doubles(s.value_heads), Doubles(s.value_heads)};
    for (u32 b = 0; b < s.sequences; ++b)
      for (u32 head = 0; head < s.value_heads; ++head) head_backward(p, dout, b, head, g);
    return g;
  }
  void head_backward(const Parameters& p, const std::vector<float>& dout, u32 sequence, u32 head,
                     Gradients& g) const {
    Doubles unused(u64{s.rows()} * s.value_columns());
    const Head h = recurrence(p, sequence, head, unused);
    const u32 keys = s.key_size, values = s.value_size;
    Doubles ds(u64{keys} * values);
    for (u32 t = s.tokens; t-- > 0;) {
      const u32 row = sequence * s.tokens + t;
      const float* dy = dout.data() + u64{row} * s.value_columns() + head * values;
      Doubles dq(keys), dk(keys), dd(values);
      double dbeta = 0, dg = 0;
      for (u32 i = 0; i < keys; ++i)
        for (u32 j = 0; j < values; ++j) {
          const double after = h.states[t][i * values + j] + h.k[t][i] * h.beta[t] * h.corrections[t][j];
          dq[i] += after * dy[j];
          ds[i * values + j] += h.q[t][i] * dy[j];
        }
      for (u32 i = 0; i < keys; ++i)
        for (u32 j = 0; j < values; ++j) {
          dd[j] += ds[i * values + j] * h.k[t][i];
          dk[i] += ds[i * values + j] * h.beta[t] * h.corrections[t][j];
        }
      for (u32 j = 0; j < values; ++j) {
        dbeta += dd[j] * h.corrections[t][j];
        g.qkv[v_at(row, head) + j] += h.beta[t] * dd[j];
        if (s.corrects()) continue;
        g.qkv[v_at(row, head) + j] += double{(*p.skip)[head]} * dy[j];
        g.skip[head] += double{dy[j]} * h.v[t][j];
      }
      for (u32 i = 0; i < keys; ++i)
        for (u32 j = 0; j < values; ++j) {
          const double state = h.states[t][i * values + j];
          if (s.corrects()) {
            dk[i] -= state * h.beta[t] * dd[j];
            ds[i * values + j] -= h.k[t][i] * h.beta[t] * dd[j];
          }
          dg += ds[i * values + j] * state;
          ds[i * values + j] *= std::exp(h.decay[t]);
        }
      const u64 line = u64{row} * s.columns();
      const double x = double{p.projected[line + s.a(head)]} + p.dt_bias[head];
      double da = dg * -std::exp(double{p.a_log[head]}) * logistic(x);
      if (s.corrects()) {
        unit_backward(p.qkv, q_at(row, head), 1 / std::sqrt(double(keys)), h.q_length[t], dq, g.qkv);
        unit_backward(p.qkv, k_at(row, head), 1, h.k_length[t], dk, g.qkv);
        g.projected[line + s.b(head)] = dbeta * h.beta[t] * (1 - h.beta[t]);
      } else {
        for (u32 i = 0; i < keys; ++i)
          g.qkv[q_at(row, head) + i] += dq[i], g.qkv[k_at(row, head) + i] += dk[i];
        const double step = std::log1p(std::exp(x));
        da = step < mamba_steps.least || step > mamba_steps.most ? 0 : da + dbeta * logistic(x);
      }
      g.projected[line + s.a(head)] = da;
      g.dt_bias[head] += da;
      g.a_log[head] += dg * h.decay[t];
      if (document(row) == t) std::fill(ds.begin(), ds.end(), 0.0);
    }
  }
  void unit_backward(const std::vector<float>& x, u64 at, double scale, double length, const Doubles& dy,
                     Doubles& dx) const {
    double along = 0;
    for (u32 i = 0; i < s.key_size; ++i) along += x[at + i] * dy[i];
    for (u32 i = 0; i < s.key_size; ++i)
      dx[at + i] += scale / length * (dy[i] - x[at + i] * along / (length * length));
  }

  double rms(const std::vector<float>& x, u64 at, double epsilon) const {
    double square = 0;
    for (u32 j = 0; j < s.value_size; ++j) square += double{x[at + j]} * x[at + j];
    return 1 / std::sqrt(square / s.value_size + epsilon);
  }
  // Calls fn(first element of a head in [R, NV DV], in the projections' z).
  template <class Fn>
  void for_heads(Fn fn) const {
    for (u32 row = 0; row < s.rows(); ++row)
      for (u32 head = 0; head < s.value_heads; ++head)
        fn(u64{row} * s.value_columns() + head * s.value_size, u64{row} * s.columns() + s.z(head));
  }
  Doubles norm(const std::vector<float>& x, const std::vector<float>& projected,
               const std::vector<float>& weight, double epsilon) const {
    Doubles out(x.size());
    for_heads([&](u64 at, u64 z) {
      const double r = rms(x, at, epsilon);
      for (u32 j = 0; j < s.value_size; ++j) out[at + j] = weight[j] * r * x[at + j] * silu(projected[z + j]);
    });
    return out;
  }
  // Writes dx and z's columns of dprojected, and adds to dweight.
  void norm_backward(const std::vector<float>& x, const std::vector<float>& projected,
                     const std::vector<float>& weight, double epsilon, const std::vector<float>& dy,
                     Doubles& dx, Doubles& dprojected, Doubles& dweight) const {
    for_heads([&](u64 at, u64 z) {
      const double r = rms(x, at, epsilon);
      double mean = 0;
      Doubles dn(s.value_size);
      for (u32 j = 0; j < s.value_size; ++j) {
        const double n = r * x[at + j], gate = silu(projected[z + j]);
        dn[j] = dy[at + j] * weight[j] * gate;
        mean += dn[j] * n / s.value_size;
        dweight[j] += dy[at + j] * n * gate;
        dprojected[z + j] = dy[at + j] * weight[j] * n * silu_slope(projected[z + j]);
      }
      for (u32 j = 0; j < s.value_size; ++j) dx[at + j] = r * (dn[j] - r * x[at + j] * mean);
    });
  }

  // Mamba-2's norm. Calls fn(first element of a key head's columns, of their z, first column).
  template <class Fn>
  void for_groups(Fn fn) const {
    for (u32 row = 0; row < s.rows(); ++row)
      for (u32 first = 0; first < s.value_columns(); first += s.group_columns())
        fn(u64{row} * s.value_columns() + first, u64{row} * s.columns() + s.z(0) + first, first);
  }
  Doubles gated(const std::vector<float>& x, const std::vector<float>& projected, u64 at, u64 z,
                double epsilon, double& rstd) const {
    Doubles h(s.group_columns());
    double square = 0;
    for (u32 j = 0; j < h.size(); ++j) h[j] = x[at + j] * silu(projected[z + j]), square += h[j] * h[j];
    rstd = 1 / std::sqrt(square / static_cast<double>(h.size()) + epsilon);
    return h;
  }
  Doubles group_norm(const std::vector<float>& x, const std::vector<float>& projected,
                     const std::vector<float>& weight, double epsilon) const {
    Doubles out(x.size());
    for_groups([&](u64 at, u64 z, u32 first) {
      double rstd = 0;
      const Doubles h = gated(x, projected, at, z, epsilon, rstd);
      for (u32 j = 0; j < h.size(); ++j) out[at + j] = weight[first + j] * rstd * h[j];
    });
    return out;
  }
  void group_norm_backward(const std::vector<float>& x, const std::vector<float>& projected,
                           const std::vector<float>& weight, double epsilon, const std::vector<float>& dy,
                           Doubles& dx, Doubles& dprojected, Doubles& dweight) const {
    for_groups([&](u64 at, u64 z, u32 first) {
      double rstd = 0, mean = 0;
      const Doubles h = gated(x, projected, at, z, epsilon, rstd);
      for (u32 j = 0; j < h.size(); ++j) {
        mean += dy[at + j] * weight[first + j] * rstd * h[j] / static_cast<double>(h.size());
        dweight[first + j] += dy[at + j] * rstd * h[j];
      }
      for (u32 j = 0; j < h.size(); ++j) {
        const double dh = rstd * (dy[at + j] * weight[first + j] - rstd * h[j] * mean);
        dx[at + j] = dh * silu(projected[z + j]);
        dprojected[z + j] = dh * x[at + j] * silu_slope(projected[z + j]);
      }
    });
  }

  DeltaShape s;
  std::vector<i32> starts;
};

}  // namespace tidepool::test
