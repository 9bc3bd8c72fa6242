// Costs of assembling the rows of latent attention.
#pragma once

#include "kernels/latent/latent.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// All columns are read and written; the rotated ones take 3 operations each. The rotated columns of k are
// read once for all heads.
constexpr KernelCost latent_rows_cost(const LatentShape& s) {
  const u64 rows = s.rows;
  return {.vector_flops = 3 * rows * (s.heads + 1) * s.qk_rope_head_dim,
          .elements = rows * (s.q_columns() + s.kv_columns() + s.qk_rope_head_dim + s.columns())};
}
// One operation more per rotated column of k, for the sum over heads.
constexpr KernelCost latent_rows_backward_cost(const LatentShape& s) {
  KernelCost cost = latent_rows_cost(s);
  cost.vector_flops += u64{s.rows} * s.heads * s.qk_rope_head_dim;
  return cost;
}

constexpr KernelCost copy_columns_cost(u64 rows, u64 columns, bool add = false) {
  return {.elements = (add ? 3 : 2) * rows * columns};
}

}  // namespace tidepool
