#include "kernels/second_moment/second_moment.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/second_moment/second_moment_tile.h"

namespace tidepool {
namespace {

constexpr u64 scratch_alignment = 64;

// Sums of blocks of values, then the sum of those.
template <class T>
double sum_in_blocks(const T* values, u64 count) {
  double sum = 0;
  for (u64 begin = 0; begin < count; begin += moment_sum_block) {
    double block = 0;
    for (u64 i = begin; i < std::min<u64>(count, begin + moment_sum_block); ++i)
      block += static_cast<double>(values[i]);
    sum += block;
  }
  return sum;
}

// Calls fn(begin, end) for blocks of [0, count).
template <class Fn>
void each_block(CorePool& pool, u64 count, Fn&& fn) {
  parallel_for(pool, Priority::high, static_cast<u32>(div_up(count, u64{moment_tile})), [&](u32 block, u32) {
    const u64 begin = u64{block} * moment_tile;
    fn(begin, std::min<u64>(count, begin + moment_tile));
  });
}

// moments = fma(keep, moments, share * mean), where the mean is of `over` values: sums of tiles, of which
// there are `tiles` for each of `count` moments.
void take_means(const float* of_tiles, u32 tiles, u32 over, u32 count, float* moments,
                const SecondMomentScalars& s, CorePool& pool) {
  each_block(pool, count, [&](u64 begin, u64 end) {
    double sums[moment_tile] = {};
    for (u32 tile = 0; tile < tiles; ++tile)
      for (u64 i = begin; i < end; ++i)
        sums[i - begin] += static_cast<double>(of_tiles[u64{tile} * count + i]);
    for (u64 i = begin; i < end; ++i) {
      const float mean = static_cast<float>(sums[i - begin] / over);
      moments[i] = std::fma(s.keep, moments[i], s.share * mean);
    }
  });
}

}  // namespace

MomentScratch take_moment_scratch(const UpdateTensor& tensor, std::byte* memory, u64& taken) {
  const auto take = [&]<class T>(T*& array, u64 count) {
    if (memory != nullptr) array = reinterpret_cast<T*>(memory + taken);
    taken += round_up(count * sizeof(T), scratch_alignment);
  };
  const u64 rows = tensor.height(), columns = tensor.columns;
  const u64 row_tiles = moment_tiles(tensor.height()), column_tiles = moment_tiles(tensor.columns);
  MomentScratch scratch;
  take(scratch.row_sums, column_tiles * rows);
  take(scratch.column_sums, row_tiles * columns);
  take(scratch.squares, row_tiles * column_tiles);
  take(scratch.blocks, div_up(std::max(rows, row_tiles * column_tiles), u64{moment_sum_block}));
  take(scratch.row_factors, rows);
  take(scratch.column_factors, columns);
  take(scratch.rate, 1);
  return scratch;
}

u64 moment_scratch_bytes(std::span<const UpdateTensor> tensors) {
  u64 taken = 0;
  for (const UpdateTensor& tensor : tensors) take_moment_scratch(tensor, nullptr, taken);
  return taken;
}

namespace {

// A tensor of the chunk, with what its update needs.
struct FactoredTensor {
  const UpdateTensor& shape;
  const std::byte* grad;
  Precision precision;
  float scale;
  MomentScratch scratch;

  // The tile at a row and a column.
  MomentTile tile(u64 row, u64 column) const {
    return {.grad = grad + (shape.begin + row * shape.columns + column) * value_bytes(precision),
            .stride = shape.columns,
            .rows = static_cast<u32>(std::min<u64>(shape.height() - row, moment_tile)),
            .columns = static_cast<u32>(std::min<u64>(shape.columns - column, moment_tile)),
            .scale = scale};
  }
  // Calls fn(tile, row, column, number) for each tile.
  template <class Fn>
  void each_tile(CorePool& pool, Fn&& fn) const {
    const u32 across = moment_tiles(shape.columns);
    parallel_for(pool, Priority::high, moment_tiles(shape.height()) * across, [&](u32 number, u32) {
      const u64 row = u64{number / across} * moment_tile, column = u64{number % across} * moment_tile;
      fn(tile(row, column), row, column, number);
    });
  }

  void update_moments(const SecondMoments& moments, const SecondMomentScalars& s, CorePool& pool) const {
    const u32 height = shape.height(), width = shape.columns;
    each_tile(pool, [&](const MomentTile& tile, u64 row, u64 column, u32) {
      moment_sums(tile, precision, s.epsilon, scratch.row_sums + column / moment_tile * height + row,
                  scratch.column_sums + row / moment_tile * width + column);
    });
    take_means(scratch.column_sums, moment_tiles(height), height, width, moments.columns, s, pool);
    if (shape.rows > 0)
      take_means(scratch.row_sums, moment_tiles(width), width, height, moments.rows, s, pool);
  }

  void find_factors(const SecondMoments& moments, CorePool& pool) const {
    each_block(pool, shape.columns, [&](u64 first, u64 last) {
      for (u64 i = first; i < last; ++i) scratch.column_factors[i] = 1 / std::sqrt(moments.columns[i]);
    });
    if (shape.rows == 0) {
      scratch.row_factors[0] = 1;
      return;
    }
    const float mean = static_cast<float>(sum_in_blocks(moments.rows, shape.rows) / shape.rows);
    for (u32 i = 0; i < shape.rows; ++i) scratch.row_factors[i] = 1 / std::sqrt(moments.rows[i] / mean);
  }

  void find_rate(double wanted, CorePool& pool) const {
    each_tile(pool, [&](const MomentTile& tile, u64 row, u64 column, u32 number) {
      scratch.squares[number] =
          moment_squares(tile, precision, scratch.row_factors + row, scratch.column_factors + column);
    });
    const u64 tiles = u64{moment_tiles(shape.height())} * moment_tiles(shape.columns);
    const double mean = sum_in_blocks(scratch.squares, tiles) / static_cast<double>(shape.elements());
    const double root = std::sqrt(mean);
    *scratch.rate = static_cast<float>(wanted / (root < 1 ? 1 : root));  // NaN stays NaN
  }

  // Elements [first, last) of the tensor.
  void read(u64 first, u64 last, float* out) const {
    while (first < last) {
      const u64 row = first / shape.columns, column = first % shape.columns;
      const u64 count = std::min(last - first, shape.columns - column);
      MomentTile piece = tile(row, column);
      piece.columns = static_cast<u32>(count);
      moment_steps(piece, precision, scratch.row_factors[row], scratch.column_factors + column, *scratch.rate,
                   out);
      first += count, out += count;
    }
  }
};

// Calls fn(tensor) for each tensor of the chunk, in order.
template <class Fn>
void each_tensor(const UpdateChunk& chunk, Precision precision, float scale, Fn&& fn) {
  u64 taken = 0;
  for (const UpdateTensor& shape : chunk.tensors)
    fn(FactoredTensor{shape, chunk.grad, precision, scale,
                      take_moment_scratch(shape, chunk.scratch.data(), taken)});
}

}  // namespace

FactoredSteps::FactoredSteps(const UpdateChunk& chunk, Precision precision, SecondMoments moments,
                             const SecondMomentScalars& s, CorePool& pool)
    : chunk_(chunk), precision_(precision), scale_(s.scale) {
  CHECK(moment_scratch_bytes(chunk.tensors) <= chunk.scratch.size(), chunk.scratch.size());
  each_tensor(chunk, precision, scale_, [&](const FactoredTensor& tensor) {
    tensor.update_moments(moments, s, pool);
    tensor.find_factors(moments, pool);
    tensor.find_rate(s.rate, pool);
    moments.rows += tensor.shape.rows, moments.columns += tensor.shape.columns;
  });
}

void FactoredSteps::read(u64 begin, u64 end, float* out) const {
  std::fill_n(out, end - begin, 0.0f);  // padding
  each_tensor(chunk_, precision_, scale_, [&](const FactoredTensor& tensor) {
    const u64 at = tensor.shape.begin;
    const u64 first = std::max(begin, at), last = std::min(end, at + tensor.shape.elements());
    if (first < last) tensor.read(first - at, last - at, out + (first - begin));
  });
}

}  // namespace tidepool
