#include "kernels/unpack/unpack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/unpack/unpack_range.h"

namespace tidepool {
namespace {

// A task's elements: 128 KiB of bf16, about 10 us.
constexpr u64 piece_elements = 64 * kib;

void unpack_pieces(const Unpack& op, CorePool& pool) {
  const u64 pieces = div_up(op.elements, piece_elements);
  const u32 tasks = static_cast<u32>(op.count * pieces);
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32) {
    const u64 matrix = task / pieces, at = task % pieces * piece_elements;
    const u64 elements = std::min(piece_elements, op.elements - at);
    const std::byte* from = op.packed + matrix * op.packed_stride;
    const Values to = op.out.at(matrix * op.out_stride + at);
    if (op.matrix.packing == Packing::none)
      std::memcpy(to.data, from + values_bytes(at, to.precision), values_bytes(elements, to.precision));
    else
      unpack_range(op.matrix, from, op.begin + at, elements, to);
  });
}

// Rows and columns that are unpacked beside the output and then written, transposed.
constexpr u32 tile_rows = 64, tile_columns = 128;

template <class T>
void put_transposed(const T* tile, u32 rows, u32 columns, T* out, u64 out_columns) {
  for (u32 c = 0; c < columns; ++c)
    for (u32 r = 0; r < rows; ++r) out[c * out_columns + r] = tile[r * tile_columns + c];
}

void unpack_tile(const PackedMatrix& m, const std::byte* packed, u32 row, u32 column, Values out) {
  alignas(64) std::byte tile[tile_rows * tile_columns * sizeof(float)];
  const Values values(tile, out.precision);
  const u32 rows = std::min(tile_rows, m.rows - row), columns = std::min(tile_columns, m.columns - column);
  for (u32 r = 0; r < rows; ++r)
    unpack_range(m, packed, u64{row + r} * m.columns + column, columns, values.at(r * tile_columns));
  const Values to = out.at(u64{column} * m.rows + row);
  if (out.precision == Precision::fp32)
    put_transposed(reinterpret_cast<const float*>(tile), rows, columns, to.fp32(), m.rows);
  else
    put_transposed(reinterpret_cast<const u16*>(tile), rows, columns, reinterpret_cast<u16*>(to.data),
                   m.rows);
}

void unpack_transposed(const Unpack& op, CorePool& pool) {
  const PackedMatrix& m = op.matrix;
  CHECK(m.packing == Packing::mxfp4 && op.elements == m.elements(), op.elements, m.rows, m.columns);
  const u32 across = static_cast<u32>(div_up(m.columns, tile_columns)),
            tiles = static_cast<u32>(div_up(m.rows, tile_rows)) * across;
  parallel_for(pool, Priority::normal, op.count * tiles, [&](u32 task, u32) {
    const u64 matrix = task / tiles;
    const u32 tile = task % tiles;
    unpack_tile(m, op.packed + matrix * op.packed_stride, tile / across * tile_rows,
                tile % across * tile_columns, op.out.at(matrix * op.out_stride));
  });
}

}  // namespace

void unpack_cpu(const Unpack& op, CorePool& pool) {
  CHECK(op.matrix.packing != Packing::none || op.count == 1, op.count);
  CHECK(op.begin + op.elements <= op.matrix.elements(), op.begin, op.elements, op.matrix.rows,
        op.matrix.columns);
  if (op.count == 0 || op.elements == 0) return;
  op.transposed ? unpack_transposed(op, pool) : unpack_pieces(op, pool);
}

}  // namespace tidepool
