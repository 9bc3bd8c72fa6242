// One value head's chunk of the gated delta rule on one core. Names of arrays are those of the formulas:
// rows are the chunk's n tokens, G[i] the sum of g up to token i, D[i, j] = e^(G[i] - G[j]) for i >= j.
//   B = K K^T D below the diagonal;   P = Q K^T D;   U = V - e^G K S;   (I + beta B) W = beta U
//   out = e^G Q S + P W;   S = e^G[last] S + (e^(G[last] - G) K)^T W
// Mamba-2: B = 0, U = V, and out += skip V.
#pragma once

#include "kernels/delta_rule/delta_chunk.h"
#include "kernels/delta_rule/delta_place.h"

namespace tidepool {

inline constexpr u32 delta_row_elements = delta_chunk_tokens * delta_head_size_max;
inline constexpr u32 delta_pitch = delta_chunk_tokens;  // elements from row to row of [n, n]
inline constexpr u32 delta_pair_elements = delta_chunk_tokens * delta_pitch;
inline constexpr u32 delta_state_elements = delta_head_size_max * delta_head_size_max;

struct DeltaScratch {
  float q[delta_row_elements],
      k[delta_row_elements];  // [n, DK]: of length 1, q divided by the root of DK; Mamba-2: as they are
  float q_rstd[delta_chunk_tokens], k_rstd[delta_chunk_tokens];
  float beta[delta_chunk_tokens], g[delta_chunk_tokens];
  float gamma[delta_chunk_tokens];                                               // e^G
  float d[delta_pair_elements], b[delta_pair_elements], p[delta_pair_elements];  // [n, n]
  float ks[delta_row_elements], u[delta_row_elements], w[delta_row_elements];    // [n, DV]
  float k_end[delta_row_elements];                                               // [n, DK]: to_end K
  float state[delta_state_elements];                                             // [DK, DV]

  // e^(G[last] - G) [n]
  const float* to_end(u32 n) const { return d + (n - 1) * delta_pitch; }
};

// DeltaInputs is read by both directions.
struct DeltaInputs {
  const float *qkv, *projected;
  float rate;     // -e^a_log of the head
  float dt_bias;  // of the head
  float skip;     // Mamba-2 only
  StepLimits steps;
};

float softplus(float x);

// Fills everything of the scratch but `state`, which it reads: W and what it is made of.
// `first`: of the document, so that the state is zero and not read.
void compute_delta_chunk(const DeltaPlace&, const DeltaInputs&, const DeltaChunk&, DeltaScratch&);
// state = the state after the chunk.
void advance_delta_state(const DeltaShape&, const DeltaChunk&, DeltaScratch&);
// x = (I + beta B)^-1 x, or with the transposed matrix. x: [n, columns]
void solve_delta_rows(const DeltaScratch&, u32 n, u32 columns, float* x);
void solve_delta_rows_transposed(const DeltaScratch&, u32 n, u32 columns, float* x);

}  // namespace tidepool
