// Matrix products on the CPU. Each tile is one library call, or one per piece of the inner dimension if
// weights come into scratch first.
#include "kernels/matmul/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/activation/activation.h"
#include "kernels/matmul/matmul_tile.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

struct Product {
  float* out;
  u32 stride;
};

bool reads_in_place(const Matmul& op, const Tile& t) {
  return op.weight.precision == Precision::fp32 && (op.transposed || !is_copied(op.n, t.rows));
}

void product_in_place(const Matmul& op, const Tile& t, Product p) {
  const auto* w = reinterpret_cast<const float*>(op.weight.data);
  sgemm({.transpose_b = op.transposed,
         .m = t.rows,
         .n = t.cols,
         .k = op.k,
         .a = op.x.fp32() + u64{t.row} * op.row_of_x(),
         .lda = op.row_of_x(),
         .b = op.transposed ? w + u64{t.col} * op.k : w + t.col,
         .ldb = op.transposed ? op.k : op.n,
         .c = p.out,
         .ldc = p.stride,
         .scale = op.scale,
         .accumulate = op.accumulate});
}

// out[0, n) = weights [at, at + n) in fp32.
void copy_weights(const Matmul& op, u64 at, u32 n, float* out) {
  if (op.weight.precision == Precision::fp32) {
    std::memcpy(out, reinterpret_cast<const float*>(op.weight.data) + at, n * sizeof(float));
  } else {
    rows::widen(reinterpret_cast<const u16*>(op.weight.data) + at, op.weight.precision, out, n);
  }
}

// Copies rows [begin, begin + depth) of the tile's weights, or columns if the weights are transposed.
void copy_tile(const Matmul& op, const Tile& t, u32 begin, u32 depth, float* out, u32 stride) {
  if (op.transposed) {
    for (u32 col = 0; col < t.cols; ++col)
      copy_weights(op, u64{t.col + col} * op.k + begin, depth, out + u64{col} * stride);
  } else {
    for (u32 row = 0; row < depth; ++row)
      copy_weights(op, u64{begin + row} * op.n + t.col, t.cols, out + u64{row} * stride);
  }
}

void product_of_copies(const Matmul& op, const Tile& t, Product p, float* right) {
  for (u32 begin = 0; begin < op.k; begin += scratch_depth) {
    const u32 depth = std::min(scratch_depth, op.k - begin);
    const u32 stride = op.transposed ? depth : copied_stride(t.cols);
    copy_tile(op, t, begin, depth, right, stride);
    sgemm({.transpose_b = op.transposed,
           .m = t.rows,
           .n = t.cols,
           .k = depth,
           .a = op.x.fp32() + u64{t.row} * op.row_of_x() + begin,
           .lda = op.row_of_x(),
           .b = right,
           .ldb = stride,
           .c = p.out,
           .ldc = p.stride,
           .scale = op.scale,
           .accumulate = op.accumulate || begin > 0});
  }
}

void epilogue_row(const Matmul& op, const Tile& t, u64 at, float* product, const float* bias) {
  if (bias != nullptr) rows::add(product, bias, t.cols);
  if (op.addend) rows::add(product, op.addend.fp32() + at, t.cols);
  switch (op.epilogue) {
    case Epilogue::none:
      if (op.addend) std::memcpy(op.y.fp32() + at, product, t.cols * sizeof(float));
      return;
    case Epilogue::gelu:
    case Epilogue::squared_relu:
      if (op.pre) std::memcpy(op.pre.fp32() + at, product, t.cols * sizeof(float));
      return (op.epilogue == Epilogue::gelu ? gelu_row : squared_relu_row)(product, op.y.fp32() + at, t.cols);
    case Epilogue::residual:
      if (op.dropout.on()) dropout_row(op.dropout, at, product, product, t.cols);
      return rows::sum(op.residual.fp32() + at, product, op.y.fp32() + at, t.cols);
    case Epilogue::gelu_backward:
    case Epilogue::squared_relu_backward: {
      const auto backward_row =
          op.epilogue == Epilogue::gelu_backward ? gelu_backward_row : squared_relu_backward_row;
      return backward_row(op.pre_in.fp32() + at, product, op.y.fp32() + at,
                          op.value ? op.value.fp32() + at : nullptr, t.cols);
    }
  }
}

// RETURNS: true if y may alias an operand of the epilogue, so that the product is computed in scratch.
bool product_in_scratch(const Matmul& op) {
  return op.epilogue == Epilogue::residual || op.epilogue == Epilogue::gelu_backward ||
         op.epilogue == Epilogue::squared_relu_backward || op.addend;
}

}  // namespace

void matmul_tile(const Matmul& op, const Tile& t, TileScratch& scratch) {
  const u64 at = u64{t.row} * op.n + t.col;
  const Product p = product_in_scratch(op)
                        ? Product{scratch.product, t.cols}
                        : Product{op.y.fp32() + u64{t.row} * op.row_of_y() + t.col, op.row_of_y()};
  if (reads_in_place(op, t)) {
    product_in_place(op, t, p);
  } else {
    product_of_copies(op, t, p, scratch.right);
  }
  if (op.epilogue == Epilogue::none && !op.bias && !op.addend) return;
  const float* bias = op.bias ? rows::widened(op.bias.at(t.col), t.cols, scratch.row) : nullptr;
  for (u32 row = 0; row < t.rows; ++row) {
    epilogue_row(op, t, at + u64{row} * op.n, p.out + u64{row} * p.stride, bias);
  }
}

void check_operands(const Matmul& op) {
  const bool plain = op.epilogue == Epilogue::none;
  CHECK(!op.accumulate || (plain && !op.bias && !op.addend));
  CHECK(op.row_of_y() == op.n || (plain && !op.addend), op.y_stride);
  CHECK(!op.addend || op.epilogue != Epilogue::residual);
  CHECK(op.row_of_x() >= op.k && op.row_of_y() >= op.n, op.x_stride, op.y_stride);
}

void matmul_cpu(const Matmul& op, CorePool& pool) {
  check_operands(op);
  const Tiling tiling = matmul_tiling(op.m, op.n);
  parallel_for(pool, Priority::normal, tiling.count(), [&](u32 task, u32 worker) {
    matmul_tile(op, tiling.tile(task), *reinterpret_cast<TileScratch*>(pool.scratch(worker)));
  });
}

}  // namespace tidepool
