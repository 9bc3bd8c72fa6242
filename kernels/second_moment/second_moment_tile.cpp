#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/second_moment/second_moment_tile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/second_moment/second_moment.h"
#include "kernels/second_moment/second_moment_tile.h"
#include "kernels/update/tile_layouts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

namespace moments {

using rules::F, rules::V, rules::Pair, rules::lanes;

// Elements that a step over a row takes: whole pairs of vectors, and whole sets of lanes.
constexpr size_t step_elements = std::max<size_t>(moment_lanes, 2 * lanes);
constexpr size_t sums = moment_lanes / lanes;  // vectors of a row's lanes
// A row of a tile is short, and the next one far: the processor's own prefetch begins anew with each.
constexpr size_t prefetched_rows = 8;

// Calls fn(element of the row, vector of gradients times scale, how many of its lanes are of the row).
template <class Layout, class Fn>
HWY_INLINE void each_vector(const MomentTile& tile, u32 row, Fn&& fn) {
  const V scale = hn::Set(F(), tile.scale);
  const size_t row_bytes = tile.stride * Layout::grad_bytes;
  const std::byte* const grad = tile.grad + row * row_bytes;
  const bool prefetches = row + prefetched_rows < tile.rows;
  for (size_t at = 0; at < tile.columns; at += 2 * lanes) {
    const size_t left = tile.columns - at;
    const std::byte* from = grad + at * Layout::grad_bytes;
    if (prefetches) hwy::Prefetch(from + prefetched_rows * row_bytes);
    HWY_ALIGN std::byte end[2 * lanes * Layout::grad_bytes];
    if (left < 2 * lanes) {
      std::memset(end, 0, sizeof end);
      std::memcpy(end, from, left * Layout::grad_bytes);
      from = end;
    }
    const Pair pair = Layout::load_grads(from);
    fn(at, hn::Mul(scale, pair.first), std::min(left, lanes));
    if (left > lanes) fn(at + lanes, hn::Mul(scale, pair.second), std::min(left - lanes, lanes));
  }
}

// Lanes of a row's sum, in vectors.
struct RowSum {
  V of[sums];

  HWY_INLINE RowSum() {
    rules::each<sums>([&](auto i) HWY_ATTR { of[i] = hn::Zero(F()); });
  }
  // `at`: element of the row.
  HWY_INLINE V& lanes_of(size_t at) { return of[at / lanes % sums]; }
  HWY_INLINE float total() const {
    HWY_ALIGN float values[moment_lanes];
    rules::each<sums>([&](auto i) HWY_ATTR { hn::Store(of[i], F(), values + i * lanes); });
    for (u32 half = moment_lanes / 2; half > 0; half /= 2)
      for (u32 i = 0; i < half; ++i) values[i] += values[i + half];
    return values[0];
  }
};

template <class Layout>
void sums_of(const MomentTile& tile, float epsilon, float* rows, float* columns) {
  const V added = hn::Set(F(), epsilon);
  HWY_ALIGN float of_columns[moment_tile + step_elements] = {};
  for (u32 row = 0; row < tile.rows; ++row) {
    RowSum sum;
    each_vector<Layout>(tile, row, [&](size_t at, V g, size_t count) HWY_ATTR {
      V square = rules::fma(g, g, added);
      if (count < lanes) square = hn::IfThenElseZero(hn::FirstN(F(), count), square);
      V& lane = sum.lanes_of(at);
      lane = hn::Add(lane, square);
      hn::StoreU(hn::Add(hn::LoadU(F(), of_columns + at), square), F(), of_columns + at);
    });
    rows[row] = sum.total();
  }
  std::copy_n(of_columns, tile.columns, columns);
}

// (row * column) * g; 0 past the row's end, where g is 0.
HWY_INLINE V product_of(float row, const float* columns, V g, size_t count) {
  HWY_ALIGN float end[lanes] = {};
  if (count < lanes) std::copy_n(columns, count, end);
  return hn::Mul(hn::Mul(hn::Set(F(), row), hn::LoadU(F(), count < lanes ? end : columns)), g);
}

template <class Layout>
double squares_of(const MomentTile& tile, const float* rows, const float* columns) {
  double of_rows[moment_tile] = {};
  for (u32 row = 0; row < tile.rows; ++row) {
    RowSum sum;
    each_vector<Layout>(tile, row, [&](size_t at, V g, size_t count) HWY_ATTR {
      const V x = product_of(rows[row], columns + at, g, count);
      V& lane = sum.lanes_of(at);
      lane = rules::fma(x, x, lane);
    });
    of_rows[row] = static_cast<double>(sum.total());
  }
  for (u32 half = moment_tile / 2; half > 0; half /= 2)
    for (u32 i = 0; i < half; ++i) of_rows[i] += of_rows[i + half];
  return of_rows[0];
}

template <class Layout>
void steps_of(const MomentTile& tile, float row, const float* columns, float rate, float* out) {
  const V factor = hn::Set(F(), rate);
  each_vector<Layout>(tile, 0, [&](size_t at, V g, size_t count) HWY_ATTR {
    const V x = hn::Mul(factor, product_of(row, columns + at, g, count));
    HWY_ALIGN float end[lanes];
    hn::StoreU(x, F(), count < lanes ? end : out + at);
    if (count < lanes) std::copy_n(end, count, out + at);
  });
}

// Calls fn(layout) with the layout of gradients of the precision.
template <class Fn>
HWY_INLINE auto with_layout(Precision precision, Fn&& fn) {
  switch (precision) {
    case Precision::fp32:
      return fn(rules::Fp32());
    case Precision::bf16:
      return fn(rules::Bf16());
    case Precision::fp16:
      break;
  }
  return fn(rules::Fp16());
}

}  // namespace moments

void moment_sums(const MomentTile& tile, Precision precision, float epsilon, float* rows, float* columns) {
  moments::with_layout(precision, [&](auto layout) HWY_ATTR {
    moments::sums_of<decltype(layout)>(tile, epsilon, rows, columns);
  });
}
double moment_squares(const MomentTile& tile, Precision precision, const float* rows, const float* columns) {
  return moments::with_layout(precision, [&](auto layout) HWY_ATTR {
    return moments::squares_of<decltype(layout)>(tile, rows, columns);
  });
}
void moment_steps(const MomentTile& tile, Precision precision, float row, const float* columns, float rate,
                  float* out) {
  moments::with_layout(precision, [&](auto layout) HWY_ATTR {
    moments::steps_of<decltype(layout)>(tile, row, columns, rate, out);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(moment_sums);
HWY_EXPORT(moment_squares);
HWY_EXPORT(moment_steps);

void moment_sums(const MomentTile& tile, Precision precision, float epsilon, float* rows, float* columns) {
  HWY_DYNAMIC_DISPATCH(moment_sums)(tile, precision, epsilon, rows, columns);
}
double moment_squares(const MomentTile& tile, Precision precision, const float* rows, const float* columns) {
  return HWY_DYNAMIC_DISPATCH(moment_squares)(tile, precision, rows, columns);
}
void moment_steps(const MomentTile& tile, Precision precision, float row, const float* columns, float rate,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(moment_steps)(tile, precision, row, columns, rate, out);
}

}  // namespace tidepool
#endif
