#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/dropout/philox_device.h"
#include "kernels/embedding/embedding_launch.h"
#include "kernels/embedding/sort_tokens_cuda.h"

namespace tidepool {
namespace cuda {
namespace {

// A: type of activations. P: type of parameters.
template <class A, class P>
struct Lookup {
  u64 elements;
  u32 columns, tokens_per_sequence;
  const i32* tokens;
  const P* wte;
  float scale;   // factor on wte
  const P* wpe;  // or null
  A* out;
};

// Goes element by element, as if the output were one long row: eight elements may span two rows.
template <bool whole, class A, class P>
__device__ void embed8(const Lookup<A, P>& op, u64 at, float (&v)[8]) {
  u64 row = at / op.columns, column = at % op.columns;
  const auto token = [&] { return u64{static_cast<u32>(op.tokens[row])} * op.columns; };
  const auto position = [&] { return row % op.tokens_per_sequence * op.columns; };
  if constexpr (whole) {
    float second[8];
    load8<true>(op.wte + token(), column, op.columns, v);
    for (float& value : v) value *= op.scale;
    if (op.wpe == nullptr) return;
    load8<true>(op.wpe + position(), column, op.columns, second);
    for (u32 i = 0; i < 8; ++i) v[i] += second[i];
  } else {
    for (u32 i = 0; i < 8; ++i) {
      v[i] = at + i < op.elements ? widened(op.wte[token() + column]) * op.scale : 0.0f;
      if (at + i < op.elements && op.wpe != nullptr) v[i] += widened(op.wpe[position() + column]);
      if (++column == op.columns) column = 0, ++row;
    }
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(256)
    embedding_kernel(Lookup<A, P> op, PhiloxKey noise, float magnitude, DropoutRow dropout, bool drops) {
  for (u64 at = vector_elements * grid_thread(); at < op.elements; at += vector_elements * grid_threads()) {
    float v[8];
    embed8<whole>(op, at, v);
    if (magnitude > 0) add_noise8(noise, magnitude, at, v);
    if (drops) dropout8(dropout, at, v);
    store8<whole>(op.out, at, op.elements, v);
  }
}

constexpr u32 rows_in_flight =
    8;  // loaded before the first is added, so the ordered sum does not wait for memory

// sum[i] += x[row_of(0), at + i], x[row_of(1), at + i], ... up to the first row that is `none`.
template <bool whole, class T, class RowOf>
__device__ __forceinline__ void add_rows(const T* x, u32 columns, u32 at, RowOf row_of, float (&sum)[8]) {
  bool more = true;
  for (u32 first = 0; more; first += rows_in_flight) {
    float v[rows_in_flight][8];
#pragma unroll
    for (u32 k = 0; k < rows_in_flight; ++k) {
      const u32 row = row_of(first + k);
      more = row != none;
      for (float& value : v[k]) value = 0;  // adding zero changes nothing
      if (more) load8<whole>(x + u64{row} * columns, at, columns, v[k]);
    }
    for (const auto& row : v) {
      for (u32 i = 0; i < 8; ++i) sum[i] += row[i];
    }
  }
}

template <bool whole>
__device__ __forceinline__ void add_to(float* row, u32 columns, u32 at, const float (&sum)[8]) {
  float v[8];
  load8<whole>(row, at, columns, v);
  for (u32 i = 0; i < 8; ++i) v[i] += sum[i];
  store8<whole>(row, at, columns, v);
}

__device__ __forceinline__ u32 first_column() {
  return vector_elements * (blockIdx.y * blockDim.x + threadIdx.x);
}

// One block per sorted row; a block whose row does not begin a run of a token is a no-op.
template <bool whole, class T>
__global__ void __launch_bounds__(embedding_threads_max)
    add_tokens_kernel(const u64* order, u32 rows, u32 columns, const T* dout, float scale, float* dwte) {
  const u32 begin = blockIdx.x, at = first_column();
  const u64 token = order[begin] >> 32;
  if (at >= columns || (begin > 0 && order[begin - 1] >> 32 == token)) return;
  const auto row_of = [&](u32 i) {
    const u64 place = u64{begin} + i;
    if (place >= rows) return none;
    const u64 key = order[place];
    return key >> 32 == token ? static_cast<u32>(key) : none;
  };
  float sum[8] = {};
  add_rows<whole>(dout, columns, at, row_of, sum);
  for (float& value : sum) value *= scale;
  add_to<whole>(dwte + token * columns, columns, at, sum);
}

// One block per position sums its rows, sequence by sequence.
template <bool whole, class T>
__global__ void __launch_bounds__(embedding_threads_max)
    add_positions_kernel(u32 sequences, u32 columns, const T* dout, float* dwpe) {
  const u32 position = blockIdx.x, tokens_per_sequence = gridDim.x, at = first_column();
  if (at >= columns) return;
  const auto row_of = [&](u32 i) { return i < sequences ? i * tokens_per_sequence + position : none; };
  float sum[8] = {};
  add_rows<whole>(dout, columns, at, row_of, sum);
  add_to<whole>(dwpe + u64{position} * columns, columns, at, sum);
}

}  // namespace
}  // namespace cuda

void embedding_cuda(const Embedding& op, cudaStream_t stream) {
  using namespace cuda;
  const u64 n = u64{op.sequences} * op.tokens_per_sequence * op.columns;
  if (n == 0) return;
  check_same_precision({op.wte, op.wpe});
  for_bool(rows_of_vectors(op.columns, op.wte, op.wpe, op.out), [&](auto whole) {
    for_precisions(op.out.precision, op.wte.precision, [&](auto activation, auto parameter) {
      using A = decltype(activation);
      using P = decltype(parameter);
      launch<embedding_kernel<whole.value, A, P>>(elementwise_launch(n, vector_elements), stream,
                                                  Lookup<A, P>{.elements = n,
                                                               .columns = op.columns,
                                                               .tokens_per_sequence = op.tokens_per_sequence,
                                                               .tokens = op.tokens,
                                                               .wte = elements<P>(op.wte),
                                                               .scale = op.scale,
                                                               .wpe = elements<P>(op.wpe),
                                                               .out = elements<A>(op.out)},
                                                  philox_key(op.noise.key), op.noise.magnitude,
                                                  dropout_row_of(op.dropout), op.dropout.on());
    });
  });
}

void embedding_backward_cuda(const EmbeddingBackward& op, cudaStream_t stream) {
  using namespace cuda;
  if (!op.accumulate) {
    zero_cuda(op.dwte, u64{op.vocabulary} * op.columns, stream);
    if (op.dwpe != nullptr) zero_cuda(op.dwpe, u64{op.positions} * op.columns, stream);
  }
  const u32 rows = op.sequences * op.tokens_per_sequence;
  if (rows == 0) return;
  sort_tokens(op.tokens, rows, op.vocabulary, op.order, stream);
  for_bool(rows_of_vectors(op.columns, op.dout, op.dwte, op.dwpe), [&](auto whole) {
    for_precision(op.dout.precision, [&](auto type) {
      using T = decltype(type);
      launch<add_tokens_kernel<whole.value, T>>(embedding_backward_launch(rows, op.columns), stream, op.order,
                                                rows, op.columns, elements<T>(op.dout), op.scale, op.dwte);
      if (op.dwpe == nullptr) return;
      launch<add_positions_kernel<whole.value, T>>(
          embedding_backward_launch(op.tokens_per_sequence, op.columns), stream, op.sequences, op.columns,
          elements<T>(op.dout), op.dwpe);
    });
  });
}

}  // namespace tidepool
