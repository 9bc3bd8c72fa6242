#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/glu/glu_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// GatedRows are a launch's rows. `row_count`: the true number on the device, or null.
template <class T>
struct GatedRows {
  u32 rows, columns;
  const i32* row_count;
  bool interleaved;
  u32 inputs;  // factors: glu_inputs()

  // Elements from row to row of gate_up.
  __device__ __forceinline__ u64 stride() const { return u64{inputs} * columns; }
  __device__ __forceinline__ u32 count() const {
    return row_count != nullptr ? static_cast<u32>(*row_count) : rows;
  }
  // Columns [c, c + 8) of a row's gate and up.
  template <bool whole>
  __device__ __forceinline__ void load(const T* row, u32 c, float (&gate)[8], float (&up)[8]) const {
    if (!interleaved) {
      load8<whole>(row, c, columns, gate);
      if (inputs == 2) load8<whole>(row + columns, c, columns, up);
      return;
    }
    float low[8], high[8];  // pairs of gate and up
    load8<whole>(row, 2 * u64{c}, 2 * u64{columns}, low);
    load8<whole>(row, 2 * u64{c} + 8, 2 * u64{columns}, high);
    UNROLL for (u32 i = 0; i < 4; ++i) {
      gate[i] = low[2 * i], up[i] = low[2 * i + 1];
      gate[4 + i] = high[2 * i], up[4 + i] = high[2 * i + 1];
    }
  }
  template <bool whole>
  __device__ __forceinline__ void store(T* row, u32 c, const float (&gate)[8], const float (&up)[8]) const {
    if (!interleaved) {
      store8<whole>(row, c, columns, gate);
      if (inputs == 2) store8<whole>(row + columns, c, columns, up);
      return;
    }
    float low[8], high[8];
    UNROLL for (u32 i = 0; i < 4; ++i) {
      low[2 * i] = gate[i], low[2 * i + 1] = up[i];
      high[2 * i] = gate[4 + i], high[2 * i + 1] = up[4 + i];
    }
    store8<whole>(row, 2 * u64{c}, 2 * u64{columns}, low);
    store8<whole>(row, 2 * u64{c} + 8, 2 * u64{columns}, high);
  }
  // Calls fn(row, column) for every vector of y that this thread takes.
  template <class Fn>
  __device__ __forceinline__ void for_vectors(Fn fn) const {
    const u64 in_row = glu_row_vectors(columns), vectors = count() * in_row;
    for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
      fn(i / in_row, static_cast<u32>(i % in_row) * vector_elements);
    }
  }
};

// y, and the gradients of gate and up.
struct GluResult {
  float y, gate, up;
};

template <class Act>
struct PlainGlu {
  template <class T>
  __device__ __forceinline__ float value(float gate, float up) const {
    return Act::template value<T>(gate) * up;
  }
  template <class T>
  __device__ __forceinline__ GluResult backward(float gate, float up, float dy) const {
    const Activated act = Act::template with_slope<T>(gate);
    return {act.value * up, dy * up * act.slope, dy * act.value};
  }
};

// GluGate::clamped. Comparisons are false for NaN, so NaN stays NaN.
struct ClampedGlu {
  GluClamp clamp;

  template <class T>
  __device__ __forceinline__ float value(float gate, float up) const {
    const float g = gate > clamp.bound ? clamp.bound : gate;
    return (bounded(up) + 1.0f) * (g * logistic_gate<T>(clamp.slope * g).open);
  }
  template <class T>
  __device__ __forceinline__ GluResult backward(float gate, float up, float dy) const {
    const float g = gate > clamp.bound ? clamp.bound : gate, up1 = bounded(up) + 1.0f;
    const LogisticGate s = logistic_gate<T>(clamp.slope * g);
    const float act = g * s.open, slope = fmaf(act * s.closed, clamp.slope, s.open);
    return {up1 * act, gate > clamp.bound ? 0.0f : dy * up1 * slope,
            up > clamp.bound || up < -clamp.bound ? 0.0f : dy * act};
  }
  __device__ __forceinline__ float bounded(float up) const {
    return up > clamp.bound ? clamp.bound : up < -clamp.bound ? -clamp.bound : up;
  }
};

struct SquaredReluAlone {
  template <class T>
  __device__ __forceinline__ float value(float x, float) const {
    return SquaredRelu::value<T>(x);
  }
  template <class T>
  __device__ __forceinline__ GluResult backward(float x, float, float dy) const {
    const Activated act = SquaredRelu::with_slope<T>(x);
    return {act.value, dy * act.slope, 0.0f};
  }
};

template <bool whole, class Unit, class T>
__global__ void __launch_bounds__(256) glu_kernel(Unit unit, GatedRows<T> rows, const T* gate_up, T* y) {
  rows.for_vectors([&](u64 row, u32 c) {
    float gate[8], up[8] = {};
    rows.template load<whole>(gate_up + row * rows.stride(), c, gate, up);
    for (u32 i = 0; i < 8; ++i) gate[i] = unit.template value<T>(gate[i], up[i]);
    store8<whole>(y + row * rows.columns, c, rows.columns, gate);
  });
}

template <class T>
struct GluBackwardArrays {
  const T* gate_up;
  const T* dy;
  T* dgate_up;
  T* value;
};

// The gradient of eight columns; each thread writes only elements that it alone has already read, so arrays
// may be the same. RETURNS: their part of <dy, y>, without the weight.
template <bool whole, class Unit, class T>
__device__ __forceinline__ float glu_backward8(const Unit& unit, const GatedRows<T>& rows,
                                               const GluBackwardArrays<T>& op, u64 row, u32 c, float weight) {
  float gate[8], up[8] = {}, dy[8], y[8], sum = 0;
  rows.template load<whole>(op.gate_up + row * rows.stride(), c, gate, up);
  load8<whole>(op.dy + row * rows.columns, c, rows.columns, dy);
  for (u32 i = 0; i < 8; ++i) {
    const GluResult back = unit.template backward<T>(gate[i], up[i], weight * dy[i]);
    sum = fmaf(dy[i], back.y, sum);  // adds zeros past the row's end
    y[i] = weight * back.y, gate[i] = back.gate, up[i] = back.up;
  }
  rows.template store<whole>(op.dgate_up + row * rows.stride(), c, gate, up);
  if (op.value != nullptr) store8<whole>(op.value + row * rows.columns, c, rows.columns, y);
  return sum;
}

template <bool whole, class Unit, class T>
__global__ void __launch_bounds__(256)
    glu_backward_kernel(Unit unit, GatedRows<T> rows, GluBackwardArrays<T> op) {
  rows.for_vectors([&](u64 row, u32 c) { glu_backward8<whole>(unit, rows, op, row, c, 1.0f); });
}

struct RouteWeights {
  const i32* slots;
  const float* weights;
  float* dweights;  // or null
};

// Rows with routing weights: a block per row, because a weight's gradient is a sum over the row.
template <bool whole, class Unit, class T>
__global__ void __launch_bounds__(256)
    weighted_glu_backward_kernel(Unit unit, GatedRows<T> rows, GluBackwardArrays<T> op, RouteWeights routes) {
  const u32 count = rows.count();
  for (u64 row = blockIdx.x; row < count; row += gridDim.x) {
    const i32 slot = routes.slots[row];
    const float weight = routes.weights[slot];
    float sum = 0;
    for (u32 c = vector_elements * threadIdx.x; c < rows.columns; c += vector_elements * blockDim.x) {
      sum += glu_backward8<whole>(unit, rows, op, row, c, weight);
    }
    if (routes.dweights == nullptr) continue;
    sum = block_sum(sum);
    if (threadIdx.x == 0) routes.dweights[slot] = sum;
  }
}

// Calls fn(unit).
template <class Fn>
void for_unit(GluGate gate, const GluClamp& clamp, Fn fn) {
  if (gate == GluGate::silu) return fn(PlainGlu<Silu>());
  if (gate == GluGate::gelu) return fn(PlainGlu<Gelu>());
  if (gate == GluGate::squared_relu) return fn(SquaredReluAlone());
  fn(ClampedGlu{clamp});
}

template <class T, class Op>
GatedRows<T> gated_rows_of(const Op& op) {
  return {.rows = op.rows,
          .columns = op.columns,
          .row_count = op.row_count,
          .interleaved = op.interleaved,
          .inputs = glu_inputs(op.gate)};
}

}  // namespace
}  // namespace cuda

void glu_cuda(const Glu& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.gate_up, op.y});
  for_bool(rows_of_vectors(op.columns, op.gate_up, op.y), [&](auto whole) {
    for_precision(op.y.precision, [&](auto type) {
      for_unit(op.gate, op.clamp, [&](auto unit) {
        using T = decltype(type);
        launch<glu_kernel<whole.value, decltype(unit), T>>(glu_launch(op.rows, op.columns), stream, unit,
                                                           gated_rows_of<T>(op), elements<T>(op.gate_up),
                                                           elements<T>(op.y));
      });
    });
  });
}

void glu_backward_cuda(const GluBackward& op, cudaStream_t stream) {
  using namespace cuda;
  require((op.weights != nullptr) == (op.slots != nullptr), "glu_backward: weights and slots go together");
  require(op.dweights == nullptr || op.weights != nullptr, "glu_backward: dweights need weights");
  check_same_precision({op.gate_up, op.dy, op.dgate_up, op.value});
  for_bool(rows_of_vectors(op.columns, op.gate_up, op.dy, op.dgate_up, op.value), [&](auto whole) {
    for_precision(op.dy.precision, [&](auto type) {
      for_unit(op.gate, op.clamp, [&](auto unit) {
        using T = decltype(type);
        using Unit = decltype(unit);
        const GluBackwardArrays<T> arrays = {.gate_up = elements<T>(op.gate_up),
                                             .dy = elements<T>(op.dy),
                                             .dgate_up = elements<T>(op.dgate_up),
                                             .value = elements<T>(op.value)};
        if (op.weights == nullptr) {
          launch<glu_backward_kernel<whole.value, Unit, T>>(glu_launch(op.rows, op.columns), stream, unit,
                                                            gated_rows_of<T>(op), arrays);
        } else {
          launch<weighted_glu_backward_kernel<whole.value, Unit, T>>(
              weighted_glu_launch(op.rows, op.columns), stream, unit, gated_rows_of<T>(op), arrays,
              RouteWeights{.slots = op.slots, .weights = op.weights, .dweights = op.dweights});
        }
      });
    });
  });
}

}  // namespace tidepool
