// Stops the process where a device would compute experts: those kernels are not written yet. Delete each
// function when its kernel is there.
#include "base/check.h"
#include "kernels/cuda/kernels_cuda_parts.h"

namespace tidepool {

void router_cuda(const Router& op, cudaStream_t) { CHECK(false, op.rows); }
void router_backward_cuda(const RouterBackward& op, cudaStream_t) { CHECK(false, op.rows); }
void router_totals_cuda(const RouterTotals& op, cudaStream_t) { CHECK(false, op.rows); }
void sort_by_expert_cuda(const SortByExpert& op, cudaStream_t) { CHECK(false, op.rows); }
void gather_rows_cuda(const GatherRows& op, cudaStream_t) { CHECK(false, op.rows_max); }
void grouped_matmul_cuda(const GroupedMatmul& op, cudaStream_t) { CHECK(false, op.rows_max); }
void grouped_weight_gradient_cuda(const GroupedWeightGradient& op, cudaStream_t) {
  CHECK(false, op.rows_max);
}
void combine_experts_cuda(const CombineExperts& op, cudaStream_t) { CHECK(false, op.rows); }
void route_bias_gradient_cuda(const RouteBiasGradient& op, cudaStream_t) { CHECK(false, op.rows_max); }

}  // namespace tidepool
