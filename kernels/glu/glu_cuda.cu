#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/glu/glu_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// Calls fn(row, column) for every vector of y that this thread takes.
template <class Fn>
__device__ __forceinline__ void for_vectors(u32 rows, u32 columns, Fn fn) {
  const u64 in_row = glu_row_vectors(columns), vectors = rows * in_row;
  for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
    fn(i / in_row, static_cast<u32>(i % in_row) * vector_elements);
  }
}

template <bool whole, class Act, class T>
__global__ void __launch_bounds__(256) glu_kernel(u32 rows, u32 columns, const T* gate_up, T* y) {
  for_vectors(rows, columns, [&](u64 row, u32 c) {
    const T* gate = gate_up + row * 2 * columns;
    float g[8], up[8];
    load8<whole>(gate, c, columns, g);
    load8<whole>(gate + columns, c, columns, up);
    for (u32 i = 0; i < 8; ++i) g[i] = Act::template value<T>(g[i]) * up[i];
    store8<whole>(y + row * columns, c, columns, g);
  });
}

template <class T>
struct GluBackwardArrays {
  const T* gate_up;
  const T* dy;
  T* dgate_up;
  T* value;
};

// Each thread writes only elements that it alone has already read, so arrays may be the same.
template <bool whole, class Act, class T>
__global__ void __launch_bounds__(256) glu_backward_kernel(u32 rows, u32 columns, GluBackwardArrays<T> op) {
  for_vectors(rows, columns, [&](u64 row, u32 c) {
    const T* gate = op.gate_up + row * 2 * columns;
    T* dgate = op.dgate_up + row * 2 * columns;
    float g[8], up[8], dy[8], y[8];
    load8<whole>(gate, c, columns, g);
    load8<whole>(gate + columns, c, columns, up);
    load8<whole>(op.dy + row * columns, c, columns, dy);
    for (u32 i = 0; i < 8; ++i) {
      const Activated act = Act::template with_slope<T>(g[i]);
      y[i] = act.value * up[i];
      g[i] = dy[i] * up[i] * act.slope;
      up[i] = dy[i] * act.value;
    }
    store8<whole>(dgate, c, columns, g);
    store8<whole>(dgate + columns, c, columns, up);
    if (op.value != nullptr) store8<whole>(op.value + row * columns, c, columns, y);
  });
}

template <class Op>
void require_plain(const Op& op) {
  require(op.gate != GluGate::clamped && !op.interleaved && op.row_count == nullptr,
          "gated units of experts have no CUDA kernel yet");
}

// Calls fn(Silu()) or fn(Gelu()).
template <class Fn>
void for_gate(GluGate gate, Fn fn) {
  if (gate == GluGate::silu) return fn(Silu());
  fn(Gelu());
}

}  // namespace
}  // namespace cuda

void glu_cuda(const Glu& op, cudaStream_t stream) {
  using namespace cuda;
  require_plain(op);
  check_same_precision({op.gate_up, op.y});
  for_bool(rows_of_vectors(op.columns, op.gate_up, op.y), [&](auto whole) {
    for_precision(op.y.precision, [&](auto type) {
      for_gate(op.gate, [&](auto act) {
        using T = decltype(type);
        launch<glu_kernel<whole.value, decltype(act), T>>(glu_launch(op.rows, op.columns), stream, op.rows,
                                                          op.columns, elements<T>(op.gate_up),
                                                          elements<T>(op.y));
      });
    });
  });
}

void glu_backward_cuda(const GluBackward& op, cudaStream_t stream) {
  using namespace cuda;
  require_plain(op);
  require(op.weights == nullptr, "gated units with routing weights have no CUDA kernel yet");
  check_same_precision({op.gate_up, op.dy, op.dgate_up, op.value});
  for_bool(rows_of_vectors(op.columns, op.gate_up, op.dy, op.dgate_up, op.value), [&](auto whole) {
    for_precision(op.dy.precision, [&](auto type) {
      for_gate(op.gate, [&](auto act) {
        using T = decltype(type);
        launch<glu_backward_kernel<whole.value, decltype(act), T>>(
            glu_launch(op.rows, op.columns), stream, op.rows, op.columns,
            GluBackwardArrays<T>{.gate_up = elements<T>(op.gate_up),
                                 .dy = elements<T>(op.dy),
                                 .dgate_up = elements<T>(op.dgate_up),
                                 .value = elements<T>(op.value)});
      });
    });
  });
}

}  // namespace tidepool
