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

struct FactoredSteps::Tensor : UpdateTensor {
  MomentScratch scratch;
  float* row_moments = nullptr;  // null: no matrix
  float* column_moments = nullptr;
  float rate = 0;

  // The tile at a row and a column.
  MomentTile tile(const FactoredSteps& of, u64 row, u64 column) const {
    return {.grad = of.grad_ + (begin + row * columns + column) * value_bytes(of.precision_),
            .stride = columns,
            .rows = static_cast<u32>(std::min<u64>(height() - row, moment_tile)),
            .columns = static_cast<u32>(std::min<u64>(columns - column, moment_tile)),
            .scale = of.scale_};
  }
  // Calls fn(tile, row, column, number) for each tile.
  template <class Fn>
  void each_tile(const FactoredSteps& of, CorePool& pool, Fn&& fn) const {
    const u32 across = moment_tiles(columns);
    parallel_for(pool, Priority::high, moment_tiles(height()) * across, [&](u32 number, u32) {
      const u64 row = u64{number / across} * moment_tile, column = u64{number % across} * moment_tile;
      fn(tile(of, row, column), row, column, number);
    });
  }

  void update_moments(const FactoredSteps& of, const SecondMomentScalars& s, CorePool& pool) {
    each_tile(of, pool, [&](const MomentTile& tile, u64 row, u64 column, u32) {
      moment_sums(tile, of.precision_, s.epsilon, scratch.row_sums + column / moment_tile * height() + row,
                  scratch.column_sums + row / moment_tile * columns + column);
    });
    take_means(scratch.column_sums, moment_tiles(height()), height(), columns, column_moments, s, pool);
    if (rows > 0) take_means(scratch.row_sums, moment_tiles(columns), columns, rows, row_moments, s, pool);
  }

  void find_factors(CorePool& pool) {
    each_block(pool, columns, [&](u64 first, u64 last) {
      for (u64 i = first; i < last; ++i) scratch.column_factors[i] = 1 / std::sqrt(column_moments[i]);
    });
    if (rows == 0) {
      scratch.row_factors[0] = 1;
      return;
    }
    const float mean = static_cast<float>(sum_in_blocks(row_moments, rows) / rows);
    for (u32 i = 0; i < rows; ++i) scratch.row_factors[i] = 1 / std::sqrt(row_moments[i] / mean);
  }

  void find_rate(const FactoredSteps& of, double wanted, CorePool& pool) {
    each_tile(of, pool, [&](const MomentTile& tile, u64 row, u64 column, u32 number) {
      scratch.squares[number] =
          moment_squares(tile, of.precision_, scratch.row_factors + row, scratch.column_factors + column);
    });
    const u64 tiles = u64{moment_tiles(height())} * moment_tiles(columns);
    const double mean = sum_in_blocks(scratch.squares, tiles) / static_cast<double>(elements());
    const double root = std::sqrt(mean);
    rate = static_cast<float>(wanted / (root < 1 ? 1 : root));  // NaN stays NaN
  }

  // Elements [first, last) of the tensor.
  void read(const FactoredSteps& of, u64 first, u64 last, float* out) const {
    while (first < last) {
      const u64 row = first / columns, column = first % columns;
      const u64 count = std::min(last - first, columns - column);
      MomentTile piece = tile(of, row, column);
      piece.columns = static_cast<u32>(count);
      moment_steps(piece, of.precision_, scratch.row_factors[row], scratch.column_factors + column, rate,
                   out);
      first += count, out += count;
    }
  }
};

FactoredSteps::FactoredSteps(const UpdateChunk& chunk, Precision precision, const SecondMoments& moments,
                             const SecondMomentScalars& s, CorePool& pool)
    : grad_(chunk.grad), precision_(precision), scale_(s.scale) {
  CHECK(moment_scratch_bytes(chunk.tensors) <= chunk.scratch.size(), chunk.scratch.size());
  u64 taken = 0, rows = 0, columns = 0;
  for (const UpdateTensor& tensor : chunk.tensors) {
    Tensor& of =
        tensors_.emplace_back(Tensor{tensor, take_moment_scratch(tensor, chunk.scratch.data(), taken)});
    of.row_moments = moments.rows + std::exchange(rows, rows + tensor.rows);
    of.column_moments = moments.columns + std::exchange(columns, columns + tensor.columns);
    of.update_moments(*this, s, pool);
    of.find_factors(pool);
    of.find_rate(*this, s.rate, pool);
  }
}

FactoredSteps::~FactoredSteps() = default;

void FactoredSteps::read(u64 begin, u64 end, float* out) const {
  std::fill_n(out, end - begin, 0.0f);  // padding
  for (const Tensor& tensor : tensors_) {
    const u64 first = std::max(begin, tensor.begin), last = std::min(end, tensor.begin + tensor.elements());
    if (first < last) tensor.read(*this, first - tensor.begin, last - tensor.begin, out + (first - begin));
  }
}

}  // namespace tidepool
