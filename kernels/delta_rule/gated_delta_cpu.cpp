// Forward of the gated delta rule on the CPU. A task has one value head of one sequence.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/delta_rule/delta_head.h"
#include "kernels/delta_rule/delta_parameters.h"
#include "kernels/delta_rule/delta_rows.h"
#include "kernels/matmul/sgemm.h"

namespace tidepool {
namespace {

// out = e^G Q S + P W; Mamba-2: and skip V, which is U.
void write_chunk(const DeltaPlace& place, const DeltaInputs& in, const DeltaChunk& chunk,
                 const DeltaScratch& s, float* out) {
  const u32 n = chunk.count, keys = place.shape.key_size, values = place.shape.value_size,
            stride = place.shape.value_columns();
  float* y = out + place.out(chunk.begin);
  if (!chunk.first) {
    sgemm({.m = n,
           .n = values,
           .k = keys,
           .a = s.q,
           .lda = keys,
           .b = s.state,
           .ldb = values,
           .c = y,
           .ldc = stride});
    for (u32 i = 0; i < n; ++i)
      delta_rows::scaled(y + u64{i} * stride, s.gamma[i], y + u64{i} * stride, values);
  }
  sgemm({.m = n,
         .n = values,
         .k = n,
         .a = s.p,
         .lda = delta_pitch,
         .b = s.w,
         .ldb = values,
         .c = y,
         .ldc = stride,
         .accumulate = !chunk.first});
  for (u32 i = 0; !place.shape.corrects() && i < n; ++i)
    delta_rows::add_scaled(y + u64{i} * stride, s.u + i * values, in.skip, values);
}

}  // namespace

void gated_delta_cpu(const GatedDelta& op, CorePool& pool) {
  const DeltaShape& shape = op.shape;
  check_delta_heads(shape);
  const u32 tasks = shape.sequences * shape.value_heads;
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<DeltaScratch*>(pool.scratch(worker));
    const DeltaPlace place = {shape, task / shape.value_heads, task % shape.value_heads};
    const DeltaInputs in = delta_inputs(op, place.head);
    const u64 state_bytes = u64{shape.key_size} * shape.value_size * sizeof(float);
    if (shape.first_token > 0) std::memcpy(scratch.state, op.state_before + place.state(), state_bytes);
    for_delta_chunks(shape, place.starts(op.starts), [&](const DeltaChunk& chunk) {
      compute_delta_chunk(place, in, chunk, scratch);
      write_chunk(place, in, chunk, scratch, op.out.fp32());
      if (!chunk.last) advance_delta_state(shape, chunk, scratch);
    });
    if (shape.goes_on) std::memcpy(op.state_after + place.state(), scratch.state, state_bytes);
  });
}

}  // namespace tidepool
