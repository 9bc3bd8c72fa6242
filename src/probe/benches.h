// Benchmarks of a device's products, attention and copies, each compared with the best rate measured.
#pragma once

#include <string>
#include <vector>

#include "executor/device.h"
#include "probe/device_timer.h"
#include "probe/gpu_meters.h"

namespace tidepool {

struct BenchRow {
  std::string name;
  std::vector<double> samples;  // samples of the rate: FLOP/s or bytes/s
  double fraction = 0;          // fraction of the reference that the table's header names

  double rate() const;  // median
};

struct DeviceBenchOptions {
  u32 repetitions = 9;  // interleaved rounds
  Clock now = steady_clock();
  double slice_seconds = 0.02;
};

// ---- products of a layer of a 7B model: forward, and both of its backward

enum class ProductForm : u8 { forward, input_gradient, weight_gradient };
struct LayerProduct {
  std::string name;
  ProductForm form = ProductForm::forward;
  ProductShape shape;  // shape of the forward product: tokens, columns, inner
};
// Products of a layer with `hidden` columns: qkv, projection, mlp in and out, and a slice of the head.
std::vector<LayerProduct> layer_products(u32 tokens, u32 hidden);
Bytes product_memory(const std::vector<LayerProduct>&, Precision);
// RETURNS: rows whose fractions are of the best row.
Result<std::vector<BenchRow>> bench_products(MeasuredDevice&, const std::vector<LayerProduct>&, Precision,
                                             const DeviceBenchOptions&);

// ---- attention, causal

struct AttentionWork {
  AttentionShape shape;
  Precision precision = Precision::bf16;
  u32 peak_side = 8192;  // side of the square product used for comparison
  u32 tile_tokens = 0;   // computed in tiles, as runs compute long sequences; one sequence only. 0: whole

  Bytes memory() const;
  AttentionToCome to_come() const;
  // 4 B H T^2 D / 2: two products over the causal half. Backward has five products: 2.5 times as many FLOPs.
  double forward_flops() const;
  double backward_flops() const { return 2.5 * forward_flops(); }
};
struct AttentionResult {
  double peak = 0;             // FLOP/s of the square product
  std::vector<BenchRow> rows;  // forward, backward, both; fractions of the peak
};
Result<AttentionResult> bench_attention(MeasuredDevice&, const AttentionWork&, const DeviceBenchOptions&);

// ---- copies: chunks of several sizes, up, down, and both at once (sum)

struct CopyResult {
  Bytes plain;                         // size of the plain copy
  std::array<BenchRow, 3> plain_rows;  // h2d, d2h, both
  struct Row {
    Bytes piece;
    std::array<BenchRow, 3> ways;  // fractions of plain_rows
  };
  std::vector<Row> rows;
};
// Every row copies `plain` bytes each way, in pieces. Needs twice `plain` of memory on either side.
Result<CopyResult> bench_copies(Device&, Bytes plain, const std::vector<Bytes>& pieces,
                                const DeviceBenchOptions&);

}  // namespace tidepool
