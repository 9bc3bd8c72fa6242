#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "control.h"
#include "emulated_cublaslt.h"
#include "tidepool/fp16.h"

namespace emulated_cuda {
namespace {

float element(const void* data, cudaDataType_t type, std::size_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  const std::uint16_t half = static_cast<const std::uint16_t*>(data)[at];
  return type == CUDA_R_16F ? tidepool::float_from_fp16(half)
                            : std::bit_cast<float>(std::uint32_t{half} << 16);
}

// The library rounds to nearest, ties to even, unlike our own kernels.
void store(void* data, cudaDataType_t type, std::size_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
    return;
  }
  if (type == CUDA_R_16F) {
    static_cast<std::uint16_t*>(data)[at] = tidepool::fp16_from_float(value);
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = value != value ? 0x7fff'0000u : bits + 0x7fffu + (bits >> 16 & 1);
  static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(rounded >> 16);
}

// RETURNS: the factor as floats, [k][outer].
std::vector<float> rows_of_outer(const void* data, const cublasLtMatrixLayoutOpaque_t& l, bool k_is_rows) {
  const std::size_t outer = k_is_rows ? l.columns : l.rows, k = k_is_rows ? l.rows : l.columns;
  std::vector<float> out(outer * k);
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const std::size_t row = k_is_rows ? j : i, column = k_is_rows ? i : j;
      out[j * outer + i] = element(data, l.type, column * static_cast<std::size_t>(l.ld) + row);
    }
  }
  return out;
}

std::atomic<std::uint64_t> of_constants{0};

// RETURNS: true also if a value is NaN, which unwritten device memory contains.
bool is_constant(const std::vector<float>& factor) {
  return std::ranges::any_of(factor, [](float x) { return x != x; }) ||
         std::ranges::all_of(factor, [&](float x) { return x == factor.front(); });
}

}  // namespace

std::uint64_t products_of_constants() { return of_constants; }

std::size_t bytes_of(const cublasLtMatrixLayoutOpaque_t& l) {
  return ((l.columns - 1) * static_cast<std::size_t>(l.ld) + l.rows) * width_of(l.type);
}

void run_matmul(const MatmulCall& call) {
  const bool a_by_rows = call.operation.transpose_a == CUBLAS_OP_T,
             b_by_rows = call.operation.transpose_b == CUBLAS_OP_N;
  const auto a = rows_of_outer(call.a_data, call.a, a_by_rows),
             b = rows_of_outer(call.b_data, call.b, b_by_rows);
  if (is_constant(a) || is_constant(b)) ++of_constants;
  const std::size_t m = call.d.rows, n = call.d.columns, k = a.size() / m;
  std::vector<float> column_sums(m), part_sums(m);
  for (std::size_t column = 0; column < n; ++column) {
    // Each result is summed along k, one after another. A column's results are summed side by side, which the
    // compiler turns into vector instructions.
    std::ranges::fill(column_sums, 0.0f);
    for (std::size_t part = 0; part < call.parts; ++part) {
      std::ranges::fill(part_sums, 0.0f);
      for (std::size_t i = k * part / call.parts; i < k * (part + 1) / call.parts; ++i) {
        const float* x = &a[i * m];
        const float y = b[i * n + column];
        for (std::size_t row = 0; row < m; ++row) part_sums[row] += x[row] * y;
      }
      for (std::size_t row = 0; row < m; ++row) column_sums[row] += part_sums[row];
    }
    for (std::size_t row = 0; row < m; ++row) {
      float sum = column_sums[row] * call.alpha;
      const std::size_t at = column * static_cast<std::size_t>(call.d.ld) + row;
      if (call.beta != 0) sum += call.beta * element(call.c_data, call.d.type, at);
      if (call.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        sum += element(call.operation.bias, call.operation.bias_type, row);
      }
      store(call.d_data, call.d.type, at, sum);
    }
  }
}

}  // namespace emulated_cuda
