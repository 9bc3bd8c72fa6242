// The paths of tokens to a range of a layer's experts, and back: sort, gather, combine.
//
// R tokens choose k experts each. A choice is a *slot*, t k + j. Slots of the range's experts are sorted by
// expert, then by token; the row of a slot in this list is its *place*, and experts compute on rows in that
// order. The number of rows is known only on the device, at offsets[count], so arrays have rows for the upper
// bound, routed_rows_max(), and rows from the true count on are neither read nor written.
//
// No result's bits depend on which other experts are in the range.
#pragma once

#include "kernels/experts/expert_range.h"
#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Stable counting sort. REQUIRES: a token has an expert at most once.
struct SortByExpert {
  u32 rows = 0, chosen = 0;      // R, k
  const i32* experts = nullptr;  // [R, k]
  ExpertRange range;
  i32* offsets = nullptr;  // [count + 1] first row of each expert of the range; the last is the true count
  i32* slots = nullptr;    // [routed_rows_max]
  i32* places = nullptr;   // [R, k], -1 if the expert is not in the range; or null
};
void sort_by_expert_cpu(const SortByExpert&, CorePool&);

// y[r] = x[slots[r] / k]
struct GatherRows {
  u32 rows_max = 0, columns = 0, chosen = 0;
  u32 expected_rows = 0;           // for costs
  const i32* row_count = nullptr;  // [1] the true count, offsets + range.count
  const i32* slots = nullptr;      // [rows_max]
  ConstValues x;                   // [R, columns]
  Values y;                        // [rows_max, columns]
};
void gather_rows_cpu(const GatherRows&, CorePool&);

// s = sum_in, then s = s + w x[place] for each expert that the token has in the range, in ascending (or
// descending) order of experts, in fp32. So a sum that continues from range to range has the bits of one
// range.
struct CombineExperts {
  u32 rows = 0, chosen = 0, columns = 0;  // R, k, H
  u32 expected_rows = 0;                  // for costs
  const i32* places = nullptr;            // [R, k]
  const i32* experts = nullptr;           // [R, k]
  const float* weights = nullptr;         // [R, k], or null: 1
  bool descending = false;
  ConstValues x;                  // [rows_max, H]
  const float* sum_in = nullptr;  // [R, H], or null: 0
  float* sum_out = nullptr;       // [R, H], or null; may be sum_in
  ConstValues residual;           // [R, H], or none: 0
  Values y;                       // [R, H] residual + s, rounded once; or none. May be the residual
};
void combine_experts_cpu(const CombineExperts&, CorePool&);

// dweights[slots[r]] += <dy[r], bias of the row's expert>: a routing weight's gradient through the bias of
// the experts' last product.
struct RouteBiasGradient {
  const i32* offsets = nullptr;  // [count + 1]
  u32 range_count = 0, rows_max = 0, columns = 0;
  u32 expected_rows = 0;       // for costs
  const i32* slots = nullptr;  // [rows_max]
  ConstValues dy;              // [rows_max, columns]
  Param bias;                  // [columns] of the first expert
  u64 expert_stride = 0;       // elements from expert to expert
  float* dweights = nullptr;   // [R, k]
};
void route_bias_gradient_cpu(const RouteBiasGradient&, CorePool&);

}  // namespace tidepool
