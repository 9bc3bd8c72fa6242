// Matrix products on the device. The library applies bias and an added matrix; the other epilogues are
// separate passes over a finished product. The library's GELU is not used: a product that keeps its
// pre-activation and a product that does not would be different algorithms with different bits, and keeping a
// value must not change numbers (docs/decisions/0029).
#include "kernels/matmul/matmul_cuda.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/matmul/matmul_launch.h"
#include "kernels/matmul/matmul_parts_cuda.h"

namespace tidepool {
namespace {

u64 width_of(Precision precision) { return values_bytes(1, precision); }

u64 elements_of(const Matmul& op) { return u64{op.m} * op.n; }

// Fewer columns at a time would leave most of a device idle.
constexpr u32 slice_columns_step = 64;
constexpr u32 slice_rows_step = 8;  // dropout's counter advances by eight

}  // namespace

Result<std::unique_ptr<CudaMatmul>> CudaMatmul::create(const CudaMatmulWorkspace& w,
                                                       ProductChoices* choices) {
  TRY_ASSIGN(auto products, cuda::Products::create(w.library, w.library_bytes, choices));
  return std::unique_ptr<CudaMatmul>(new CudaMatmul(std::move(products), w.scratch, w.scratch_bytes));
}

Result<void> CudaMatmul::matmul(const Matmul& op, cudaStream_t stream) {
  check_operands(op);
  switch (op.epilogue) {
    case Epilogue::none:
      return product(op, op.accumulate ? ConstValues(op.y) : op.addend, op.y, stream);
    case Epilogue::gelu:
    case Epilogue::squared_relu: {
      const Values pre = op.pre ? op.pre : op.y;
      TRY(product(op, op.addend, pre, stream));
      if (tunes_) return {};
      (op.epilogue == Epilogue::gelu ? gelu_cuda : squared_relu_cuda)(pre, op.y, elements_of(op), stream);
      return {};
    }
    case Epilogue::residual:
      if (op.dropout.on()) return residual_with_dropout(op, stream);
      return product(op, op.residual, op.y, stream);
    case Epilogue::gelu_backward:
    case Epilogue::squared_relu_backward: {
      // The product is stored where its pass writes the activation's value, because y may be an array that
      // the pass still reads.
      const Values dy = op.value ? op.value : op.y;
      CHECK(dy.data != op.pre_in.data);
      TRY(product(op, op.addend, dy, stream));
      if (tunes_) return {};
      const auto backward =
          op.epilogue == Epilogue::gelu_backward ? gelu_backward_cuda : squared_relu_backward_cuda;
      backward(op.pre_in, dy, op.y, op.value, elements_of(op), stream);
      return {};
    }
  }
  return {};
}

// out = x w + bias + c, in slices of columns if weights must first be converted to the precision of x.
// The library's results in 16 bits depend on whether c is out, which a plan decides: so c is copied to out
// (docs/decisions/0049).
Result<void> CudaMatmul::product(const Matmul& op, ConstValues c, Values out, cudaStream_t stream) {
  if (c && c.data != out.data) {
    CHECK(c.precision == out.precision);
    if (!tunes_)
      TRY_CUDA(cudaMemcpyAsync(out.data, c.data, values_bytes(elements_of(op), out.precision),
                               cudaMemcpyDeviceToDevice, stream),
               "copying what is added to a matrix product");
    c = out;
  }
  u32 slice = op.n;
  if (op.weight.precision != op.x.precision) {
    const u64 column_bytes = op.k * width_of(op.x.precision) + sizeof(float);  // and its bias
    slice = static_cast<u32>(std::min<u64>(op.n, (scratch_half_bytes() - scratch_alignment) / column_bytes));
    if (slice < op.n) slice = slice / slice_columns_step * slice_columns_step;
    CHECK(slice > 0, op.k, op.n);
  }
  for (u32 begin = 0; begin < op.n; begin += slice) {
    TRY(column_slice(op, begin, std::min(slice, op.n - begin), c, out, stream));
  }
  return {};
}

Result<void> CudaMatmul::column_slice(const Matmul& op, u32 begin, u32 columns, ConstValues c, Values out,
                                      cudaStream_t stream) {
  ConstValues weight = op.weight.at(op.transposed ? u64{begin} * op.k : begin);
  u32 stride = op.transposed ? op.k : op.n;
  ConstValues bias = op.bias.at(begin);
  std::byte* scratch = scratch_;
  if (weight.precision != op.x.precision) {
    const u32 rows = op.transposed ? columns : op.k, row_columns = op.transposed ? op.k : columns;
    const Values converted = {scratch, op.x.precision};
    cuda::convert_rows(weight, stride, rows, row_columns, converted, stream);
    weight = converted;
    stride = row_columns;
    scratch += round_up(values_bytes(u64{rows} * row_columns, op.x.precision), scratch_alignment);
  }
  if (bias && bias.precision != out.precision) {
    const Values converted = {scratch, out.precision};
    cuda::convert_rows(bias, columns, 1, columns, converted, stream);
    bias = converted;
  }
  return products_->run({.m = columns,
                         .n = op.m,
                         .k = op.k,
                         .transpose_a = op.transposed,
                         .a = weight,
                         .b = op.x,
                         .c = c.at(begin),
                         .bias = bias,
                         .d = out.at(begin),
                         .lda = stride,
                         .ldb = op.row_of_x(),
                         .ldd = op.row_of_y(),
                         .scale = op.scale},
                        stream);
}

// Works in slices of rows: y may be the residual, so a product is stored elsewhere until its dropout.
Result<void> CudaMatmul::residual_with_dropout(const Matmul& op, cudaStream_t stream) {
  const u64 row_bytes = values_bytes(op.n, op.y.precision);
  const u32 most = static_cast<u32>(std::min<u64>(op.m, scratch_half_bytes() / row_bytes));
  const u32 slice = most < op.m ? most / slice_rows_step * slice_rows_step : most;
  CHECK(slice > 0, op.n);
  const Values waiting = {scratch_ + scratch_half_bytes(), op.y.precision};
  for (u32 begin = 0; begin < op.m; begin += slice) {
    Matmul part = op;
    part.m = std::min(slice, op.m - begin);
    part.x = op.x.at(u64{begin} * op.row_of_x());
    TRY(product(part, {}, waiting, stream));
    if (tunes_) continue;
    const u64 first = u64{begin} * op.n;
    cuda::add_dropped(op.dropout, first, waiting, op.residual.at(first), op.y.at(first), elements_of(part),
                      stream);
  }
  return {};
}

namespace {

// A factor of dw^T in the library's layout, [M, size].
struct GradientFactor {
  ConstValues values;
  u32 size, stride;
};

}  // namespace

// dw^T in the library's layout is [N, K], or [K, N] if transposed. A factor in another precision than fp32
// beside one in fp32 is converted in slices of its columns, which are rows or columns of dw^T.
Result<void> CudaMatmul::gradient_product(const WeightGradient& op, cudaStream_t stream) {
  const GradientFactor x = {op.x, op.k, op.row_of_x()}, dy = {op.dy, op.n, op.row_of_dy()};
  const GradientFactor rows = op.transposed ? x : dy, columns = op.transposed ? dy : x;
  const Values dw = op.dw;
  const auto run = [&](const GradientFactor& a, const GradientFactor& b, u64 at) {
    return products_->run({.m = a.size,
                           .n = b.size,
                           .k = op.m,
                           .transpose_b = true,
                           .a = a.values,
                           .b = b.values,
                           .c = op.accumulate ? ConstValues(dw.at(at)) : ConstValues(),
                           .d = dw.at(at),
                           .lda = a.stride,
                           .ldb = b.stride,
                           .ldd = rows.size},
                          stream);
  };
  if (op.x.precision == op.dy.precision) return run(rows, columns, 0);
  const bool converts_rows = columns.values.precision == Precision::fp32;
  const GradientFactor& narrow = converts_rows ? rows : columns;
  CHECK((converts_rows ? columns : rows).values.precision == Precision::fp32);
  u32 slice = static_cast<u32>(std::min<u64>(narrow.size, scratch_bytes_.value / (sizeof(float) * op.m)));
  if (slice < narrow.size && slice > slice_columns_step)
    slice = slice / slice_columns_step * slice_columns_step;
  CHECK(slice > 0, op.m);
  for (u32 begin = 0; begin < narrow.size; begin += slice) {
    const u32 size = std::min(slice, narrow.size - begin);
    const Values wide = {scratch_, Precision::fp32};
    cuda::convert_rows(narrow.values.at(begin), narrow.stride, op.m, size, wide, stream);
    const GradientFactor part = {wide, size, size};
    TRY(converts_rows ? run(part, columns, begin) : run(rows, part, u64{begin} * rows.size));
  }
  return {};
}

Result<void> CudaMatmul::weight_gradient(const WeightGradient& op, cudaStream_t stream) {
  TRY(gradient_product(op, stream));
  if (op.dbias == nullptr || tunes_) return {};
  CHECK(op.row_of_dy() == op.n, op.dy_stride);
  const u64 parts_bytes = u64{cuda::column_sums_parts(op.m)} * op.n * sizeof(float);
  CHECK(parts_bytes <= scratch_bytes_.value, op.m, op.n);
  cuda::column_sums(op.dy, op.m, op.n, reinterpret_cast<float*>(scratch_), op.dbias, op.accumulate, stream);
  return {};
}

}  // namespace tidepool
