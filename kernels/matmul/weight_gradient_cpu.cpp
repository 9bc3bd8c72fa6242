#include "kernels/matmul/matmul.h"
#include "kernels/matmul/scratch.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

void bias_tile(const WeightGradient& op, const Tile& t, TileScratch& scratch) {
  rows::column_sums(op.dy.fp32() + t.col, op.m, t.cols, op.n, scratch.row, scratch.partial);
  rows::store(op.dbias + t.col, scratch.row, t.cols, op.accumulate);
}

void weight_tile(const WeightGradient& op, const Tile& t, TileScratch& scratch) {
  // Into scratch even when it overwrites: the library's bits may depend on the leading dimension.
  sgemm({.transpose_a = true,
         .m = t.rows,
         .n = t.cols,
         .k = op.m,
         .a = op.x.fp32() + t.row,
         .lda = op.k,
         .b = op.dy.fp32() + t.col,
         .ldb = op.n,
         .c = scratch.product,
         .ldc = t.cols});
  for (u32 row = 0; row < t.rows; ++row) {
    rows::store(op.dw + u64{t.row + row} * op.n + t.col, scratch.product + u64{row} * t.cols, t.cols,
                op.accumulate);
  }
}

}  // namespace

void weight_gradient_cpu(const WeightGradient& op, CorePool& pool) {
  const Tiling tiling = matmul_tiling(op.k, op.n);
  parallel_for(pool, Priority::normal, tiling.count(), [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<TileScratch*>(pool.scratch(worker));
    const Tile t = tiling.tile(task);
    // The first tile of a column strip has just brought dy's columns close.
    weight_tile(op, t, scratch);
    if (t.row == 0 && op.dbias != nullptr) bias_tile(op, t, scratch);
  });
}

}  // namespace tidepool
