#include "kernels/orthogonalize/matrix_passes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

constexpr u64 piece_elements = 64 * kib;

template <class Fn>
void for_pieces(u64 elements, u64 piece, CorePool& pool, Fn fn) {
  const u32 pieces = static_cast<u32>(div_up(elements, piece));
  parallel_for(pool, Priority::normal, pieces, [&](u32 task, u32) {
    const u64 begin = task * piece;
    fn(begin, std::min(elements, begin + piece));
  });
}

// Rows per task: about a piece.
u64 rows_together(const MatrixPlace& matrix) {
  return std::max<u64>(1, piece_elements / std::max(matrix.columns, 1u));
}

// The project's rounding to bf16, as an fp32 number.
float rounded(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  return x != x ? x : std::bit_cast<float>((bits + 0x8000u) & 0xffff0000u);
}

// Calls fn(reader) with a function from an element's index to its value.
template <class Fn>
void with_reader(ConstValues v, Fn fn) {
  const u16* const halves = reinterpret_cast<const u16*>(v.data);
  switch (v.precision) {
    case Precision::fp32:
      return fn([values = v.fp32()](u64 i) { return values[i]; });
    case Precision::bf16:
      return fn([=](u64 i) { return std::bit_cast<float>(u32{halves[i]} << 16); });
    case Precision::fp16:
      return fn([=](u64 i) { return float_from_fp16(halves[i]); });
  }
}

template <class Fn>
void with_writer(Values v, Fn fn) {
  u16* const halves = reinterpret_cast<u16*>(v.data);
  switch (v.precision) {
    case Precision::fp32:
      return fn([values = v.fp32()](u64 i, float x) { values[i] = x; });
    case Precision::bf16:
      return fn([=](u64 i, float x) { halves[i] = static_cast<u16>(std::bit_cast<u32>(rounded(x)) >> 16); });
    case Precision::fp16:
      return fn([=](u64 i, float x) { halves[i] = fp16_from_float(x); });
  }
}

// Copies the rounded numbers of some rows. RETURNS: their sum of squares.
template <class Read>
double copy_rows(const NormalizeMatrix& op, Read read, float* to, u64 begin, u64 end) {
  const MatrixPlace& m = op.matrix;
  double sum = 0;
  for (u64 r = begin; r < end; ++r) {
    for (u64 c = 0; c < m.columns; ++c) {
      const float x = rounded(read(m.begin + r * m.row_step + c * m.column_step));
      to[r * m.columns + c] = x;
      sum += static_cast<double>(x) * static_cast<double>(x);
    }
  }
  return sum;
}

}  // namespace

void normalize_matrix_cpu(const NormalizeMatrix& op, CorePool& pool) {
  const MatrixPlace& m = op.matrix;
  float* const to = op.to.fp32();
  const u64 rows = std::max(rows_together(m), div_up(u64{m.rows}, u64{matrix_partials_max}));
  with_reader(op.from, [&](auto read) {
    for_pieces(m.rows, rows, pool,
               [&](u64 begin, u64 end) { op.partials[begin / rows] = copy_rows(op, read, to, begin, end); });
  });
  double sum = 0;
  for (u64 piece = 0; piece < div_up(u64{m.rows}, rows); ++piece) sum += op.partials[piece];
  const float norm = std::max(rounded(static_cast<float>(std::sqrt(sum))), op.epsilon);
  for_pieces(m.elements(), piece_elements, pool, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) to[i] = rounded(to[i] / norm);
  });
}

void add_product_cpu(const AddProduct& op, CorePool& pool) {
  float* const y = op.y.fp32();
  const float* const x = op.x.fp32();
  for_pieces(op.elements, piece_elements, pool, [&](u64 begin, u64 end) {
    if (x == nullptr)
      for (u64 i = begin; i < end; ++i) y[i] = rounded(op.of_product * op.product[i]);
    else
      for (u64 i = begin; i < end; ++i) y[i] = rounded(op.of_x * x[i] + op.of_product * op.product[i]);
  });
}

void scale_matrix_cpu(const ScaleMatrix& op, CorePool& pool) {
  const MatrixPlace& m = op.matrix;
  const float* const from = op.from.fp32();
  with_writer(op.to, [&](auto write) {
    for_pieces(m.rows, rows_together(m), pool, [&](u64 begin, u64 end) {
      for (u64 r = begin; r < end; ++r)
        for (u64 c = 0; c < m.columns; ++c)
          write(m.begin + r * m.row_step + c * m.column_step, op.scale * from[r * m.columns + c]);
    });
  });
}

}  // namespace tidepool
