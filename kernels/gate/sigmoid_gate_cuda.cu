// Output gates on the device. Memory is the bottleneck: all is read and written once, 16 bytes at a time.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/gate/sigmoid_gate_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// Calls fn(first element of the head in x, first element of its gates, column) for every eight columns of a
// head that the thread takes.
template <class Fn>
__device__ __forceinline__ void for_gated_vectors(const GateShape& s, u32 in_head, Fn fn) {
  const u64 in_row = u64{s.heads} * in_head, vectors = s.rows * in_row;
  for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
    const u64 row = i / in_row;
    const u32 in_this = static_cast<u32>(i - row * in_row), head = in_this / in_head;
    fn((row * s.heads + head) * s.head_size, row * s.row_stride + u64{head} * s.head_stride,
       in_this % in_head * vector_elements);
  }
}

template <class T>
struct SigmoidGateArguments {
  GateShape shape;
  u32 head_vectors;
  const T *x, *gates;
  T* y;  // may be x
};

// whole_head: a head has one gate.
template <bool whole, bool whole_head, class T>
__global__ void __launch_bounds__(256) sigmoid_gate_kernel(SigmoidGateArguments<T> op) {
  const u32 size = op.shape.head_size;
  for_gated_vectors(op.shape, op.head_vectors, [&](u64 head, u64 gates, u32 c) {
    float x[8];
    load8<whole>(op.x + head, c, size, x);
    if constexpr (whole_head) {
      const float open = logistic_gate<T>(widened(op.gates[gates])).open;
      UNROLL for (u32 i = 0; i < 8; ++i) x[i] *= open;
    } else {
      float gate[8];
      load8<whole>(op.gates + gates, c, size, gate);
      UNROLL for (u32 i = 0; i < 8; ++i) x[i] *= logistic_gate<T>(gate[i]).open;
    }
    store8<whole>(op.y + head, c, size, x);
  });
}

template <class T>
struct SigmoidGateBackwardArguments {
  GateShape shape;
  u32 head_vectors;
  const T *x, *gates, *dy;
  T* dx;      // may be dy
  T* dgates;  // may be gates
};

// A thread writes only elements that it alone has already read, so arrays may be the same.
template <bool whole, class T>
__global__ void __launch_bounds__(256) sigmoid_gate_backward_kernel(SigmoidGateBackwardArguments<T> op) {
  const u32 size = op.shape.head_size;
  for_gated_vectors(op.shape, op.head_vectors, [&](u64 head, u64 gates, u32 c) {
    float x[8], gate[8], dy[8];
    load8<whole>(op.x + head, c, size, x);
    load8<whole>(op.gates + gates, c, size, gate);
    load8<whole>(op.dy + head, c, size, dy);
    UNROLL for (u32 i = 0; i < 8; ++i) {
      const LogisticGate s = logistic_gate<T>(gate[i]);
      dy[i] *= s.open;
      gate[i] = dy[i] * x[i] * s.closed;
    }
    store8<whole>(op.dx + head, c, size, dy);
    store8<whole>(op.dgates + gates, c, size, gate);
  });
}

// A head has one gate: a warp per row and head sums the gate's gradient.
template <bool whole, class T>
__global__ void __launch_bounds__(256) whole_head_gate_backward_kernel(SigmoidGateBackwardArguments<T> op) {
  const GateShape& s = op.shape;
  const u64 heads = u64{s.rows} * s.heads;
  for (u64 i = grid_thread() / warp_threads; i < heads; i += grid_threads() / warp_threads) {
    const u64 head = i * s.head_size;
    const u64 gate_at = i / s.heads * s.row_stride + i % s.heads * s.head_stride;
    const LogisticGate gate = logistic_gate<T>(widened(op.gates[gate_at]));
    float sum = 0;
    for (u32 c = vector_elements * lane_index(); c < s.head_size; c += vector_elements * warp_threads) {
      float x[8], dy[8];
      load8<whole>(op.x + head, c, s.head_size, x);
      load8<whole>(op.dy + head, c, s.head_size, dy);
      UNROLL for (u32 k = 0; k < 8; ++k) {
        sum = fmaf(dy[k], x[k], sum);  // adds zeros past the head's end
        dy[k] *= gate.open;
      }
      store8<whole>(op.dx + head, c, s.head_size, dy);
    }
    sum = warp_sum(sum);  // every lane has read the gate
    if (lane_index() == 0) op.dgates[gate_at] = narrowed<T>(sum * gate.open * gate.closed);
  }
}

bool one_gate_per_head(const GateShape& s) { return s.gate_size != s.head_size; }

void require_gates(const GateShape& s) {
  require(s.gate_size == s.head_size || s.gate_size == 1, "a gate is an element's, or the whole head's");
  require(s.heads <= 1 || s.head_stride >= s.gate_size, "gates of heads do not overlap");
  require(s.rows <= 1 || s.row_stride >= s.gate_size, "gates of rows do not overlap");
}

// Heads, and the gates of a head's elements, begin at multiples of eight elements. `gates`: one or two
// arrays.
template <class... Gates>
bool gates_of_vectors(const GateShape& s, const Gates&... gates) {
  if (one_gate_per_head(s)) return s.head_size % vector_elements == 0;
  return s.row_stride % vector_elements == 0 && s.head_stride % vector_elements == 0 &&
         rows_of_vectors(s.head_size, gates...);
}

}  // namespace
}  // namespace cuda

void sigmoid_gate_cuda(const SigmoidGate& op, cudaStream_t stream) {
  using namespace cuda;
  require_gates(op.shape);
  check_same_precision({op.x, op.gates, op.y});
  const bool vectors = gates_of_vectors(op.shape, op.gates) && rows_of_vectors(0, op.x, op.y);
  for_bool(vectors, [&](auto whole) {
    for_bool(one_gate_per_head(op.shape), [&](auto whole_head) {
      for_precision(op.x.precision, [&](auto type) {
        using T = decltype(type);
        launch<sigmoid_gate_kernel<whole.value, whole_head.value, T>>(
            sigmoid_gate_launch(op.shape), stream,
            SigmoidGateArguments<T>{.shape = op.shape,
                                    .head_vectors = gate_head_vectors(op.shape),
                                    .x = elements<T>(op.x),
                                    .gates = elements<T>(op.gates),
                                    .y = elements<T>(op.y)});
      });
    });
  });
}

void sigmoid_gate_backward_cuda(const SigmoidGateBackward& op, cudaStream_t stream) {
  using namespace cuda;
  require_gates(op.shape);
  check_same_precision({op.x, op.gates, op.dy, op.dx, op.dgates});
  const bool vectors =
      gates_of_vectors(op.shape, op.gates, op.dgates) && rows_of_vectors(0, op.x, op.dy, op.dx);
  for_bool(vectors, [&](auto whole) {
    for_precision(op.x.precision, [&](auto type) {
      using T = decltype(type);
      const SigmoidGateBackwardArguments<T> arguments = {.shape = op.shape,
                                                         .head_vectors = gate_head_vectors(op.shape),
                                                         .x = elements<T>(op.x),
                                                         .gates = elements<T>(op.gates),
                                                         .dy = elements<T>(op.dy),
                                                         .dx = elements<T>(op.dx),
                                                         .dgates = elements<T>(op.dgates)};
      if (one_gate_per_head(op.shape)) {
        launch<whole_head_gate_backward_kernel<whole.value, T>>(whole_head_gate_launch(op.shape), stream,
                                                                arguments);
      } else {
        launch<sigmoid_gate_backward_kernel<whole.value, T>>(sigmoid_gate_launch(op.shape), stream,
                                                             arguments);
      }
    });
  });
}

}  // namespace tidepool
