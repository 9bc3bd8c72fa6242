// TileOutput stores a tile of a grouped product: scale, bias, and the sum with earlier values.
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// T: type of y. P: type of the bias.
template <class T, class P>
struct TileOutput {
  T* y;           // the tile's first element
  u64 stride;     // elements from row to row
  u32 rows;       // from the tile's first on
  u32 columns;    // the same
  const P* bias;  // of the tile's first column, or null
  float scale;
  bool accumulate;

  __device__ __forceinline__ float finished(u32 column, float sum, float before) const {
    float v = scale * sum;
    if (bias != nullptr) v += widened(bias[column]);
    return accumulate ? before + v : v;
  }
  __device__ __forceinline__ void put(u32 row, u32 column, float sum) const {
    if (row >= rows || column >= columns) return;
    T& to = y[row * stride + column];
    to = narrowed<T>(finished(column, sum, accumulate ? widened(to) : 0.0f));
  }
  // Two neighbours. `whole`: they are aligned to their size, and columns are even.
  template <bool whole>
  __device__ __forceinline__ void put_pair(u32 row, u32 column, float first, float second) const {
    if constexpr (!whole) {
      put(row, column, first);
      put(row, column + 1, second);
    } else {
      if (row >= rows || column >= columns) return;
      T* const to = y + row * stride + column;
      const float before0 = accumulate ? widened(to[0]) : 0.0f, before1 = accumulate ? widened(to[1]) : 0.0f;
      const float v0 = finished(column, first, before0), v1 = finished(column + 1, second, before1);
      if constexpr (sizeof(T) == 4) {
        *reinterpret_cast<float2*>(to) = make_float2(v0, v1);
      } else {
        *reinterpret_cast<u32*>(to) = pair_of<T>(v0, v1);
      }
    }
  }
};

}  // namespace tidepool::cuda
