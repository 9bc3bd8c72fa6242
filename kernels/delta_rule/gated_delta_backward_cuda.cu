// Backward of the gated delta rule on the device, delta_heads_at_once() value heads of every key head at a
// time, so that the workspace has room for that many states, and gradients of q and k add up in order. Three
// kernels:
//   states     from the first chunk to the last: the state before every chunk, and the corrections X
//   solutions  from the last chunk to the first: the gradient of the state after every chunk, the
//              solutions Y, and with them dv. Slices of a state's columns do not depend on each other in
//              either.
//   gradients  for all chunks at once, head after head: the rest, which sums over a state's columns
// The last two go by segments of the sequence, from the last on, because the second's results need much room.
//
// The bottleneck: multiply-adds in fp32, for DK = DV = 128 about 4.6, 5.9 and 6.3 million a chunk and value
// head. For each key head of a sequence, the first two kernels keep at most four multiprocessors busy.
#include "kernels/delta_rule/delta_gradients.cuh"
#include "kernels/delta_rule/delta_sums_cuda.h"
#include "kernels/delta_rule/gated_delta_cuda.cuh"

namespace tidepool {
namespace cuda {
namespace {

template <StateRule rule, class T, u32 slice>
__global__ void __launch_bounds__(delta_threads, 2) delta_states_kernel(DeltaBackwardArguments<T> op) {
  using Slice = DeltaSlice<slice>;
  Slice& s = *dynamic_shared<Slice>();
  const DeltaShape& shape = op.in.shape;
  const DeltaSlicePlace<slice> place(shape, shape.key_heads * op.work.at_once);
  DeltaRows<rule, T> rows = {op.in, op.place(place.sequence, place.head, op.work.at_once), {}, s.block};
  const i32* starts = rows.place.starts(op.in.starts);
  for (u32 token = 0; token < shape.tokens; token = rows.chunk.end()) {
    rows.chunk = delta_chunk_here(shape, starts, token);
    if (rows.chunk.first)
      s.clear_state(shape.key_size);
    else if (rows.chunk.continues_tile_before())
      s.load_state(shape, op.in.state_before + rows.place.state() + place.begin, place.width);
    else
      s.store_state(shape, op.work.state(shape, rows.place, token) + place.begin, place.width);
    typename Slice::Sums unused;
    correct_values<false>(rows, place, s, unused, [&](u32 i, u32 column, float x) {
      if (i < rows.chunk.count && column < place.width)
        op.work.correction(shape, rows.place, token + i)[place.begin + column] = x;
    });
    if (!rows.chunk.last) advance_state(rows, s);
  }
}

// rows = Y of a chunk, from the gradient of the state after it, which is in the place of the state. Keeps
// dout [n, slice] in a stage. Writes Y and dv.
template <StateRule rule, class T, u32 slice>
__device__ __forceinline__ void solve_chunk(const DeltaBackwardArguments<T>& op,
                                            const DeltaRows<rule, T>& rows,
                                            const DeltaSlicePlace<slice>& place, DeltaSlice<slice>& s) {
  using Slice = DeltaSlice<slice>;
  const DeltaChunk& chunk = rows.chunk;
  typename Slice::Sums y;
  Slice::clear(y);
  make_pairs<true>(rows,
                   [&](u32 column) { Slice::add_staged(y, s.block.stages.left, s.state + column * slice); });
  float* dout = s.block.stages.left;
  for (u32 at = threadIdx.x; at < delta_n * slice; at += delta_threads) {
    const u32 row = at / slice, column = at % slice;
    dout[at] = row < chunk.count && column < place.width
                   ? widened(op.dout[rows.place.out(chunk.begin + row) + place.begin + column])
                   : 0.0f;
  }
  __syncthreads();
  UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < Slice::columns; ++j) y[i][j] *=
      s.block.to_end[delta_row() + i];
  s.add_transposed_pairs(y, dout);
  UNROLL for (u32 i = 0; i < 4; ++i) Slice::store_own(s.rows + (delta_row() + i) * slice, y[i]);
  __syncthreads();
  const auto write = [&](u32 i, u32 column, float x) {
    if (i >= chunk.count || column >= place.width) return;
    const u32 token = chunk.begin + i;
    op.work.solution(op.in.shape, rows.place, token)[place.begin + column] = x;
    float dv = s.block.beta[i] * x;
    if constexpr (rule == StateRule::mamba)
      dv = fmaf(op.in.skip.at(rows.place.head), dout[i * slice + column], dv);
    op.dqkv[rows.place.v(token) + place.begin + column] = narrowed<T>(dv);
  };
  if constexpr (rule == StateRule::delta) {
    solve_delta_transposed(s, write);
  } else {
    for (u32 at = threadIdx.x; at < delta_n * slice; at += delta_threads)
      write(at / slice, at % slice, s.rows[at]);
    __syncthreads();
  }
}

// state = e^G[last] state + (e^G Q)^T dout - (beta e^G K)^T Y, Mamba-2 without the last: the gradient of the
// state before the chunk. Overwrites the pairs. Ends with a barrier.
template <StateRule rule, class T, u32 slice>
__device__ __forceinline__ void go_back(const DeltaRows<rule, T>& rows, DeltaSlice<slice>& s) {
  using Slice = DeltaSlice<slice>;
  const DeltaBlock& block = s.block;
  KEEP_ROLLED for (u32 begin = 0; begin < rows.in.shape.key_size; begin += delta_tile) {
    typename Slice::Sums sums;
    Slice::clear(sums);
    s.stage_chunk([&](u32 i, u32 k, float(&v)[8]) {
      rows.q(i, begin + k, v);
      scale_eight(v, block.gamma[i]);
    });
    __syncthreads();
    Slice::add_outer(sums, block.pairs, block.stages.left);
    if constexpr (rule == StateRule::delta) {
      __syncthreads();
      s.stage_chunk([&](u32 i, u32 k, float(&v)[8]) {
        rows.k(i, begin + k, v);
        scale_eight(v, -block.beta[i] * block.gamma[i]);
      });
      __syncthreads();
      Slice::add_outer(sums, block.pairs, s.rows);
    }
    s.advance(begin, block.gamma[delta_n - 1], sums);
    __syncthreads();
  }
}

template <StateRule rule, class T, u32 slice>
__global__ void __launch_bounds__(delta_threads, 2) delta_solutions_kernel(DeltaBackwardArguments<T> op) {
  using Slice = DeltaSlice<slice>;
  Slice& s = *dynamic_shared<Slice>();
  const DeltaShape& shape = op.in.shape;
  const DeltaSlicePlace<slice> place(shape, shape.key_heads * op.work.at_once);
  DeltaRows<rule, T> rows = {op.in, op.place(place.sequence, place.head, op.work.at_once), {}, s.block};
  const i32* starts = rows.place.starts(op.in.starts);
  const u32 begin = op.segment * delta_segment_tokens, end = min(begin + delta_segment_tokens, shape.tokens);
  for (u32 token = end; token > begin; token = rows.chunk.begin) {
    rows.chunk = delta_chunk_here(shape, starts, token - 1);
    if (rows.chunk.begin < begin) return;  // the segment before has it
    if (rows.chunk.last)
      s.clear_state(shape.key_size);
    else if (token == end)
      s.load_state(shape, op.gradient_after(rows.place, rows.chunk) + place.begin, place.width);
    solve_chunk(op, rows, place, s);
    if (!rows.chunk.first) go_back(rows, s);
    if (rows.chunk.begin == 0 && shape.first_token > 0) {
      if (rows.chunk.first) s.clear_state(shape.key_size);
      s.store_state(shape, op.dstate_before + rows.place.state() + place.begin, place.width);
    } else if (!rows.chunk.first) {
      s.store_state(shape, op.work.gradient(shape, rows.place, rows.chunk.begin) + place.begin, place.width);
    }
  }
}

// Calls fn(tiles of 64 columns) for the least that hold q and k.
template <class Fn>
void for_key_tiles(u32 key_size, Fn fn) {
  if (key_size <= 64) return fn(std::integral_constant<u32, 1>());
  if (key_size <= 128) return fn(std::integral_constant<u32, 2>());
  fn(std::integral_constant<u32, 4>());
}

template <StateRule rule, class T, u32 slice>
void launch_delta_backward(DeltaBackwardArguments<T> arguments, cudaStream_t stream) {
  const DeltaShape& s = arguments.in.shape;
  const u32 at_once = arguments.work.at_once;
  const LaunchShape slices = delta_slices_launch(s, s.key_heads * at_once);
  for (u32 first = 0; first < s.heads_per_key(); first += at_once) {
    arguments.first = first;
    launch<delta_states_kernel<rule, T, slice>>(slices, stream, arguments);
    for (u32 segment = delta_segments(s); segment-- > 0;) {
      arguments.first = first, arguments.segment = segment;
      launch<delta_solutions_kernel<rule, T, slice>>(slices, stream, arguments);
      for_key_tiles(s.key_size, [&](auto tiles) {
        for (u32 i = 0; i < at_once; ++i) {
          arguments.first = first + i;
          launch<delta_gradients_kernel<rule, T, tiles.value>>(delta_gradients_launch(s, segment), stream,
                                                               arguments);
        }
      });
    }
  }
}

}  // namespace
}  // namespace cuda

void gated_delta_backward_cuda(const GatedDeltaBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.qkv, op.projected, op.dout, op.dqkv, op.dprojected});
  check_delta(op);
  const DeltaShape& s = op.shape;
  if (s.rows() == 0) return;
  const bool aligned = rows_of_vectors(0, op.qkv, op.dout, ConstValues(op.states));
  for_precision(op.qkv.precision, [&](auto element) {
    using T = decltype(element);
    const DeltaBackwardArguments<T> arguments = {.in = delta_arrays<T>(op, aligned),
                                                 .dout = elements<T>(op.dout),
                                                 .dqkv = elements<T>(op.dqkv),
                                                 .dprojected = elements<T>(op.dprojected),
                                                 .partials = op.da_log != nullptr ? op.partials : nullptr,
                                                 .work = DeltaWorkspace(s, op.states),
                                                 .dstate_after = op.dstate_after,
                                                 .dstate_before = op.dstate_before,
                                                 .first = 0,
                                                 .segment = 0};
    for_state_rule(s, [&](auto rule) {
      if (delta_slice(s.key_size) == 32) return launch_delta_backward<rule.value, T, 32>(arguments, stream);
      launch_delta_backward<rule.value, T, 16>(arguments, stream);
    });
  });
  if (op.da_log == nullptr) return;
  sum_delta_groups({.partials = op.partials,
                    .groups = delta_groups(s),
                    .kinds = delta_head_sums(s),
                    .columns = s.value_heads,
                    .out = {op.da_log, op.ddt_bias, op.dskip},
                    .accumulate = op.accumulate},
                   stream);
}

}  // namespace tidepool
