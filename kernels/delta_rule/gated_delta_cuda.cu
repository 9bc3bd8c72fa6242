// Forward of the gated delta rule on the device. A block goes through the chunks of a value head of a
// sequence with a slice of the state's columns; it computes the pairs of a chunk's tokens again that other
// slices compute too, which costs less than to bring them.
//
// The bottleneck: multiply-adds in fp32. For DK = DV = 128 a slice takes 1.5 million a chunk, of which the
// pairs are a third: at 128 a clock 11.6 thousand clocks of a multiprocessor, in which it reads 90 KiB of
// bf16 from the L2 cache, 8 bytes a clock. Chunks follow each other, so that a value head of a sequence keeps
// at most four multiprocessors busy: one sequence of 32 heads has blocks for 128.
#include "kernels/delta_rule/gated_delta_cuda.cuh"

namespace tidepool {
namespace cuda {
namespace {

template <StateRule rule, class T, u32 slice>
__global__ void __launch_bounds__(delta_threads, 2)
    gated_delta_kernel(DeltaArrays<T> in, T* out, float* state_after) {
  using Slice = DeltaSlice<slice>;
  Slice& s = *dynamic_shared<Slice>();
  const DeltaSlicePlace<slice> place(in.shape, in.shape.value_heads);
  DeltaRows<rule, T> rows = {in, {in.shape, place.sequence, place.head}, {}, s.block};
  const i32* starts = rows.place.starts(in.starts);
  for (u32 token = 0; token < in.shape.tokens; token = rows.chunk.end()) {
    rows.chunk = delta_chunk_here(in.shape, starts, token);
    if (rows.chunk.first) s.clear_state(in.shape.key_size);
    if (rows.chunk.continues_tile_before())
      s.load_state(in.shape, in.state_before + rows.place.state() + place.begin, place.width);
    typename Slice::Sums y;
    correct_values<true>(rows, place, s, y, [](u32, u32, float) {});
    s.add_pairs(y, s.rows);
    UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < Slice::columns; ++j) {
      const u32 row = delta_row() + i, column = Slice::column() + j;
      if (row >= rows.chunk.count || column >= place.width) continue;
      const u32 token = rows.chunk.begin + row;
      float sum = y[i][j];
      if constexpr (rule == StateRule::mamba) {
        const float v = widened(in.qkv[rows.place.v(token) + place.begin + column]);
        sum = fmaf(in.skip.at(place.head), v, sum);
      }
      out[rows.place.out(token) + place.begin + column] = narrowed<T>(sum);
    }
    __syncthreads();
    if (!rows.chunk.last) advance_state(rows, s);
  }
  if (in.shape.goes_on) s.store_state(in.shape, state_after + rows.place.state() + place.begin, place.width);
}

template <StateRule rule, class T, u32 slice>
void launch_gated_delta(const GatedDelta& op, cudaStream_t stream) {
  launch<gated_delta_kernel<rule, T, slice>>(delta_slices_launch(op.shape, op.shape.value_heads), stream,
                                             delta_arrays<T>(op, rows_of_vectors(0, op.qkv)),
                                             elements<T>(op.out), op.state_after);
}

}  // namespace
}  // namespace cuda

void gated_delta_cuda(const GatedDelta& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.qkv, op.projected, op.out});
  check_delta(op);
  if (op.shape.rows() == 0) return;
  for_precision(op.qkv.precision, [&](auto element) {
    using T = decltype(element);
    for_state_rule(op.shape, [&](auto rule) {
      if (delta_slice(op.shape.key_size) == 32) return launch_gated_delta<rule.value, T, 32>(op, stream);
      launch_gated_delta<rule.value, T, 16>(op, stream);
    });
  });
}

}  // namespace tidepool
