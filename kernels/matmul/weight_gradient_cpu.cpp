#include <algorithm>

#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_tile.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

// dw = rows^T columns, both [M, ...].
struct Factors {
  const float* rows;
  const float* columns;
  u32 column_count;
  u32 row_stride, column_stride;  // strides of the arrays' rows
};
Factors factors_of(const WeightGradient& op) {
  const float *x = op.x.fp32(), *dy = op.dy.fp32();
  return op.transposed ? Factors{dy, x, op.k, op.row_of_dy(), op.row_of_x()}
                       : Factors{x, dy, op.n, op.row_of_x(), op.row_of_dy()};
}

// dbias[begin, begin + n)
void bias_piece(const WeightGradient& op, u32 begin, u32 n, TileScratch& scratch) {
  rows::column_sums(op.dy.fp32() + begin, op.m, n, op.n, scratch.row, scratch.partial);
  rows::store(op.dbias + begin, scratch.row, n, op.accumulate);
}

}  // namespace

void weight_gradient_tile(const WeightGradient& op, const Tile& t, TileScratch& scratch) {
  const Factors f = factors_of(op);
  // Computed in scratch even when overwriting: the library's bits may depend on the leading dimension.
  for (u32 begin = 0; begin < op.m; begin += scratch_depth) {
    const u32 depth = std::min(scratch_depth, op.m - begin);
    // The left factor is transposed in scratch: a product of a transposed tile took three times as long
    // (oneDNN 2.6 on two AVX2 cores, 256 x 512 x 64 and x 1024: 20 instead of 75 GFLOP/s; transposing takes a
    // tenth).
    rows::transpose(f.rows + u64{begin} * f.row_stride + t.row, f.row_stride, depth, t.rows, scratch.left);
    const RightFactor right =
        right_factor({f.columns + u64{begin} * f.column_stride + t.col, f.column_stride}, depth, t.cols,
                     t.rows, scratch.right);
    sgemm({.m = t.rows,
           .n = t.cols,
           .k = depth,
           .a = scratch.left,
           .lda = depth,
           .b = right.data,
           .ldb = right.stride,
           .c = scratch.product,
           .ldc = t.cols,
           .accumulate = begin > 0});
  }
  for (u32 row = 0; row < t.rows; ++row) {
    rows::store(op.dw + u64{t.row + row} * f.column_count + t.col, scratch.product + u64{row} * t.cols,
                t.cols, op.accumulate);
  }
}

void weight_gradient_cpu(const WeightGradient& op, CorePool& pool) {
  CHECK(op.dbias == nullptr || op.row_of_dy() == op.n, op.dy_stride);
  const Tiling tiling = matmul_tiling(weight_gradient_rows(op), weight_gradient_columns(op));
  parallel_for(pool, Priority::normal, tiling.count(), [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<TileScratch*>(pool.scratch(worker));
    const Tile t = tiling.tile(task);
    weight_gradient_tile(op, t, scratch);
    if (op.dbias == nullptr) return;
    // The first tile of a strip of dy's columns has just brought them into the cache.
    if (!op.transposed && t.row == 0) bias_piece(op, t.col, t.cols, scratch);
    if (op.transposed && t.col == 0) bias_piece(op, t.row, t.rows, scratch);
  });
}

}  // namespace tidepool
