// Backward of the gated delta rule on the CPU. A task has one key head of one sequence, and its value heads
// in order, whose gradients of q and k add up. For each value head it computes the states before chunks
// again, and then goes through the chunks from the last to the first.
#include <cmath>
#include <cstring>

#include "kernels/delta_rule/delta_head.h"
#include "kernels/delta_rule/delta_parameters.h"
#include "kernels/delta_rule/delta_rows.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

// Gradients of a chunk; rows are tokens.
struct DeltaBackwardScratch {
  DeltaScratch forward;
  float dout[delta_row_elements];                                   // [n, DV]
  float qs[delta_row_elements], y[delta_row_elements];              // [n, DV]; y: the solution Y
  float dq[delta_row_elements], dk[delta_row_elements];             // [n, DK], of the rows of length 1
  float dk_end[delta_row_elements], temporary[delta_row_elements];  // [n, DK], and [n, max(DK, DV)]
  float dp[delta_pair_elements], db[delta_pair_elements];           // [n, n]: gradients of P and of beta B
  float dg[delta_chunk_tokens], beta[delta_chunk_tokens];           // gradients of g and beta
  float dstate[delta_state_elements];                               // of the state after the chunk
};
static_assert(sizeof(DeltaBackwardScratch) <= 4 * mib);

// c [m, n] = a b; `stride`: elements from row to row.
struct Dense {
  const float* data;
  u32 stride;
  bool transposed = false;
};
void multiply(u32 m, u32 n, u32 k, Dense a, Dense b, float* c, u32 ldc, bool accumulate = false) {
  sgemm({.transpose_a = a.transposed,
         .transpose_b = b.transposed,
         .m = m,
         .n = n,
         .k = k,
         .a = a.data,
         .lda = a.stride,
         .b = b.data,
         .ldb = b.stride,
         .c = c,
         .ldc = ldc,
         .accumulate = accumulate});
}

class DeltaBackwardHead {
 public:
  DeltaBackwardHead(const GatedDeltaBackward& op, const DeltaPlace& place, DeltaBackwardScratch& scratch)
      : op_(op),
        place_(place),
        in_(delta_inputs(op, place.head)),
        s_(scratch),
        f_(scratch.forward),
        keys_(op.shape.key_size),
        values_(op.shape.value_size) {
    const u64 task = u64{place.sequence} * op.shape.key_heads + place.key_head();
    states_ = op.states + task * delta_state_slots(op.shape) * state_elements();
  }

  void run() {
    const DeltaShape& shape = op_.shape;
    const i32* starts = place_.starts(op_.starts);
    const u64 bytes = state_elements() * sizeof(float);
    if (shape.first_token > 0) std::memcpy(f_.state, op_.state_before + place_.state(), bytes);
    for_delta_chunks(shape, starts, [&](const DeltaChunk& chunk) {
      if (!chunk.first && !chunk.continues_tile_before())
        std::memcpy(states_ + chunk.slot() * state_elements(), f_.state, bytes);
      if (chunk.last) return;
      compute_delta_chunk(place_, in_, chunk, f_);
      advance_delta_state(shape, chunk, f_);
    });
    if (shape.goes_on) std::memcpy(s_.dstate, op_.dstate_after + place_.state(), bytes);
    for_delta_chunks_back(shape, starts, [&](const DeltaChunk& chunk) { go_back(chunk); });
    if (shape.first_token > 0) {
      float* const dstate = op_.dstate_before + place_.state();
      if (delta_chunk_at(shape, starts, 0).first)
        std::memset(dstate, 0, bytes);
      else
        std::memcpy(dstate, s_.dstate, bytes);
    }
    if (op_.da_log == nullptr) return;
    const u64 at = u64{place_.sequence} * op_.shape.value_heads + place_.head;
    float* sums = op_.partials + delta_head_sums(op_.shape) * at;
    sums[0] = static_cast<float>(da_log_), sums[1] = static_cast<float>(ddt_bias_);
    if (!corrects()) sums[2] = static_cast<float>(dskip_);
  }

 private:
  bool corrects() const { return op_.shape.corrects(); }
  u64 state_elements() const { return u64{keys_} * values_; }
  const float* state_before(const DeltaChunk& chunk) const {
    if (chunk.continues_tile_before()) return op_.state_before + place_.state();
    return states_ + chunk.slot() * state_elements();
  }
  Dense keys(const float* x, bool transposed = false) const { return {x, keys_, transposed}; }
  Dense values(const float* x, bool transposed = false) const { return {x, values_, transposed}; }
  static Dense pairs(const float* x, bool transposed = false) { return {x, delta_pitch, transposed}; }

  void go_back(const DeltaChunk& chunk) {
    const u32 n = chunk.count;
    if (!chunk.first) std::memcpy(f_.state, state_before(chunk), state_elements() * sizeof(float));
    compute_delta_chunk(place_, in_, chunk, f_);
    for (u32 i = 0; i < n; ++i)
      std::memcpy(s_.dout + i * values_, op_.dout.fp32() + place_.out(chunk.begin + i),
                  values_ * sizeof(float));
    if (!chunk.first) multiply(n, values_, keys_, keys(f_.q), values(f_.state), s_.qs, values_);
    solve(chunk);
    pair_gradients(n);
    gate_gradients(chunk);
    row_gradients(chunk);
    corrects() ? write_rows(chunk) : write_mamba_rows(chunk);
    corrects() ? write_gates(chunk) : write_steps(chunk);
    if (!chunk.first) state_gradient(chunk);
  }

  // Y = (I + beta B)^-T (P^T dout + k_end dstate); dk_end = W dstate^T
  void solve(const DeltaChunk& chunk) {
    const u32 n = chunk.count;
    multiply(n, values_, n, pairs(f_.p, true), values(s_.dout), s_.y, values_);
    if (!chunk.last) {
      multiply(n, values_, keys_, keys(f_.k_end), values(s_.dstate), s_.y, values_, true);
      multiply(n, keys_, values_, values(f_.w), values(s_.dstate, true), s_.dk_end, keys_);
    }
    if (corrects()) solve_delta_rows_transposed(f_, n, values_, s_.y);
  }

  // dP = dout W^T on and below the diagonal; d(beta B) = -Y W^T below it.
  void pair_gradients(u32 n) {
    multiply(n, n, values_, values(s_.dout), values(f_.w, true), s_.dp, delta_pitch);
    for (u32 i = 0; i < n; ++i) std::memset(s_.dp + i * delta_pitch + i + 1, 0, (n - i - 1) * sizeof(float));
    if (!corrects()) return;
    multiply(n, n, values_, values(s_.y), values(f_.w, true), s_.db, delta_pitch);
    for (u32 i = 0; i < n; ++i) {
      rows::scale(s_.db + i * delta_pitch, -1, i);
      std::memset(s_.db + i * delta_pitch + i, 0, (n - i) * sizeof(float));
    }
  }

  // Gradients of beta and g, before the pairs are overwritten. g[j] is in G[i] for i >= j, and in the decay
  // from m to i for m < j <= i. Each sum is of its own terms only, and in double: terms cancel, and
  // differences of longer sums would lose more digits still.
  void gate_gradients(const DeltaChunk& chunk) {
    const u32 n = chunk.count;
    for (u32 i = 0; i < n; ++i)
      s_.beta[i] = delta_rows::dot(s_.y + i * values_, f_.u + i * values_, values_) +
                   (corrects() ? delta_rows::dot(s_.db + i * delta_pitch, f_.b + i * delta_pitch, i) : 0);
    float columns[delta_chunk_tokens] = {}, z[delta_chunk_tokens];
    double from_start = !chunk.first && !chunk.last ? through_state(n) : 0;
    for (u32 j = n; j-- > 0;) {
      if (corrects()) {
        delta_rows::scaled(f_.b + j * delta_pitch, f_.beta[j], z, j);
        delta_rows::multiply(z, s_.db + j * delta_pitch, z, j);
      } else {
        std::memset(z, 0, j * sizeof(float));
      }
      delta_rows::multiply_add(z, s_.dp + j * delta_pitch, f_.p + j * delta_pitch, j);
      rows::add(columns, z, j);
      if (!chunk.first) from_start += out_of_state(j);
      double between = 0;
      for (u32 m = 0; m < j; ++m) between += columns[m];
      s_.dg[j] = static_cast<float>(from_start + between);
    }
    double to_end = 0;
    for (u32 j = 0; !chunk.last && j < n; ++j) {
      s_.dg[j] = static_cast<float>(s_.dg[j] + to_end);
      to_end += delta_rows::dot(s_.dk_end + j * keys_, f_.k_end + j * keys_, keys_);
    }
  }
  // Shares of the gradient of G: of the last token, by the state before the chunk that is left after it; and
  // of a token, by what it reads of that state.
  float through_state(u32 n) const {
    return f_.gamma[n - 1] * delta_rows::dot(f_.state, s_.dstate, state_elements());
  }
  float out_of_state(u32 i) const {
    const float qs = delta_rows::dot(s_.qs + i * values_, s_.dout + i * values_, values_);
    if (!corrects()) return f_.gamma[i] * qs;
    const float ks = delta_rows::dot(f_.ks + i * values_, s_.y + i * values_, values_);
    return f_.gamma[i] * (qs - f_.beta[i] * ks);
  }

  // dq = e^G dout S^T + (dP D) K
  // dk = -beta e^G Y S^T + (dP D)^T Q + E K + E^T K + to_end dk_end, with E = beta d(beta B) D
  void row_gradients(const DeltaChunk& chunk) {
    const u32 n = chunk.count;
    for (u32 i = 0; i < n; ++i) {
      delta_rows::multiply(s_.dp + i * delta_pitch, f_.d + i * delta_pitch, s_.dp + i * delta_pitch, n);
      if (!corrects()) continue;
      rows::scale(s_.db + i * delta_pitch, f_.beta[i], n);
      delta_rows::multiply(s_.db + i * delta_pitch, f_.d + i * delta_pitch, s_.db + i * delta_pitch, n);
    }
    multiply(n, keys_, n, pairs(s_.dp), keys(f_.k), s_.dq, keys_);
    multiply(n, keys_, n, pairs(s_.dp, true), keys(f_.q), s_.dk, keys_);
    if (corrects()) {
      multiply(n, keys_, n, pairs(s_.db), keys(f_.k), s_.dk, keys_, true);
      multiply(n, keys_, n, pairs(s_.db, true), keys(f_.k), s_.dk, keys_, true);
    }
    if (!chunk.last)
      for (u32 i = 0; i < n; ++i)
        delta_rows::add_scaled(s_.dk + i * keys_, s_.dk_end + i * keys_, f_.to_end(n)[i], keys_);
    if (chunk.first) return;
    multiply(n, keys_, values_, values(s_.dout), values(f_.state, true), s_.temporary, keys_);
    for (u32 i = 0; i < n; ++i)
      delta_rows::add_scaled(s_.dq + i * keys_, s_.temporary + i * keys_, f_.gamma[i], keys_);
    if (!corrects()) return;
    multiply(n, keys_, values_, values(s_.y), values(f_.state, true), s_.temporary, keys_);
    for (u32 i = 0; i < n; ++i)
      delta_rows::add_scaled(s_.dk + i * keys_, s_.temporary + i * keys_, -f_.beta[i] * f_.gamma[i], keys_);
  }

  // Back through the length: with x^ = x / |x|, dx = (dy - x^ (x^ dy)) / |x|, q's also divided by the root.
  void write_rows(const DeltaChunk& chunk) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(keys_));
    const bool add = place_.head % op_.shape.heads_per_key() != 0;
    for (u32 i = 0; i < chunk.count; ++i) {
      const u32 token = chunk.begin + i;
      float* dv = op_.dqkv.fp32() + place_.v(token);
      delta_rows::scaled(s_.y + i * values_, f_.beta[i], dv, values_);
      write_unit(f_.q + i * keys_, s_.dq + i * keys_, f_.q_rstd[i], scale, op_.dqkv.fp32() + place_.q(token),
                 add);
      write_unit(f_.k + i * keys_, s_.dk + i * keys_, f_.k_rstd[i], 1, op_.dqkv.fp32() + place_.k(token),
                 add);
    }
  }
  // `y`: scale x / |x|. Overwrites dy.
  void write_unit(const float* y, float* dy, float rstd, float scale, float* dx, bool add) const {
    const float along = delta_rows::dot(y, dy, keys_) / (scale * scale);
    delta_rows::add_scaled(dy, y, -along, keys_);
    rows::scale(dy, scale * rstd, keys_);
    rows::store(dx, dy, keys_, add);
  }

  // Y is the gradient of beta V, and dout that of skip V.
  void write_mamba_rows(const DeltaChunk& chunk) {
    const bool add = place_.head % op_.shape.heads_per_key() != 0;
    for (u32 i = 0; i < chunk.count; ++i) {
      const u32 token = chunk.begin + i;
      const float* dout = s_.dout + i * values_;
      float* dv = op_.dqkv.fp32() + place_.v(token);
      delta_rows::scaled(s_.y + i * values_, f_.beta[i], dv, values_);
      delta_rows::add_scaled(dv, dout, in_.skip, values_);
      rows::store(op_.dqkv.fp32() + place_.q(token), s_.dq + i * keys_, keys_, add);
      rows::store(op_.dqkv.fp32() + place_.k(token), s_.dk + i * keys_, keys_, add);
      dskip_ += delta_rows::dot(dout, f_.u + i * values_, values_);
    }
  }

  void write_steps(const DeltaChunk& chunk) {
    for (u32 i = 0; i < chunk.count; ++i) {
      const u64 at = place_.a(chunk.begin + i);
      const float x = in_.projected[at] + in_.dt_bias, step = softplus(x);
      const bool bounded = step < in_.steps.least || step > in_.steps.most;
      const float dx = bounded ? 0 : (s_.beta[i] + in_.rate * s_.dg[i]) / (1.0f + std::exp(-x));
      op_.dprojected.fp32()[at] = dx;
      da_log_ += static_cast<double>(s_.dg[i]) * f_.g[i];
      ddt_bias_ += dx;
    }
  }

  void write_gates(const DeltaChunk& chunk) {
    for (u32 i = 0; i < chunk.count; ++i) {
      const u64 a = place_.a(chunk.begin + i);
      const float x = in_.projected[a] + in_.dt_bias;
      const float da = s_.dg[i] * in_.rate / (1.0f + std::exp(-x));
      op_.dprojected.fp32()[a] = da;
      op_.dprojected.fp32()[place_.b(chunk.begin + i)] = s_.beta[i] * f_.beta[i] * (1 - f_.beta[i]);
      da_log_ += static_cast<double>(s_.dg[i]) * f_.g[i];
      ddt_bias_ += da;
    }
  }

  // dstate = e^G[last] dstate + (e^G Q)^T dout - (beta e^G K)^T Y
  void state_gradient(const DeltaChunk& chunk) {
    const u32 n = chunk.count;
    if (!chunk.last) rows::scale(s_.dstate, f_.gamma[n - 1], state_elements());
    const auto add = [&](const float* x, const float* y, bool accumulate) {
      multiply(keys_, values_, n, keys(x, true), values(y), s_.dstate, values_, accumulate);
    };
    for (u32 i = 0; i < n; ++i)
      delta_rows::scaled(f_.q + i * keys_, f_.gamma[i], s_.temporary + i * keys_, keys_);
    add(s_.temporary, s_.dout, !chunk.last);
    if (!corrects()) return;
    for (u32 i = 0; i < n; ++i)
      delta_rows::scaled(f_.k + i * keys_, -f_.beta[i] * f_.gamma[i], s_.temporary + i * keys_, keys_);
    add(s_.temporary, s_.y, true);
  }

  const GatedDeltaBackward& op_;
  const DeltaPlace place_;
  const DeltaInputs in_;
  DeltaBackwardScratch& s_;
  DeltaScratch& f_;
  const u32 keys_, values_;
  float* states_;
  double da_log_ = 0, ddt_bias_ = 0, dskip_ = 0;
};

}  // namespace

void gated_delta_backward_cpu(const GatedDeltaBackward& op, CorePool& pool) {
  const DeltaShape& shape = op.shape;
  check_delta_heads(shape);
  const u32 tasks = shape.sequences * shape.key_heads, each = shape.heads_per_key();
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<DeltaBackwardScratch*>(pool.scratch(worker));
    for (u32 i = 0; i < each; ++i) {
      const u32 head = task % shape.key_heads * each + i;
      DeltaBackwardHead(op, {shape, task / shape.key_heads, head}, scratch).run();
    }
  });
  if (op.da_log == nullptr) return;
  float* const to[] = {op.da_log, op.ddt_bias, op.dskip};
  const u32 kinds = delta_head_sums(shape);
  for (u32 head = 0; head < shape.value_heads; ++head)
    for (u32 kind = 0; kind < kinds; ++kind) {
      float sum = 0;
      for (u32 sequence = 0; sequence < shape.sequences; ++sequence)
        sum += op.partials[kinds * (u64{sequence} * shape.value_heads + head) + kind];
      to[kind][head] = op.accumulate ? to[kind][head] + sum : sum;
    }
}

}  // namespace tidepool
