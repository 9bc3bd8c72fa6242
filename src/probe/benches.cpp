// Benches lay their arrays out in device memory and time all rows in interleaved rounds.
#include "probe/benches.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/median.h"
#include "probe/copies.h"
#include "probe/fill_device.h"
#include "probe/products.h"

namespace tidepool {
namespace {

// Layout places arrays one after the other in the device's memory.
class Layout {
 public:
  explicit Layout(std::byte* memory) : memory_(memory) {}
  Values take(u64 elements, Precision precision) {
    const u64 begin = end_;
    end_ = round_up(end_ + values_bytes(elements, precision), frame_alignment);
    return {memory_ + begin, precision};
  }
  Bytes bytes() const { return Bytes{end_}; }

 private:
  std::byte* memory_;
  u64 end_ = 0;
};

std::span<std::byte> bytes_of(Values values, u64 elements) {
  return {values.data, values_bytes(elements, values.precision)};
}

// Measures in rounds over all rows, so that a change of the device's clock affects all rows. One more round
// for warm-up.
Result<void> measure_rounds(const DeviceTimer& timer, u32 repetitions, std::vector<BenchRow>& rows,
                            const std::vector<std::pair<double, std::function<void()>>>& calls) {
  CHECK(rows.size() == calls.size(), rows.size());
  for (u32 round = 0; round <= repetitions; ++round)
    for (u32 i = 0; i < rows.size(); ++i) {
      TRY_ASSIGN(const double rate, timer.rate(calls[i].first, calls[i].second));
      if (round > 0) rows[i].samples.push_back(rate);
    }
  return {};
}

// ---- products

struct ProductArrays {
  Values x, weight, y, weight_gradient;
};
struct ProductElements {
  u64 x = 0, weight = 0, y = 0;
};

ProductElements most_of(const std::vector<LayerProduct>& products) {
  ProductElements most;
  for (const auto& [name, form, s] : products) {
    most.x = std::max(most.x, u64{s.m} * s.k);
    most.weight = std::max(most.weight, u64{s.k} * s.n);
    most.y = std::max(most.y, u64{s.m} * s.n);
  }
  return most;
}

ProductArrays lay_out(const std::vector<LayerProduct>& products, Precision precision, Layout& layout) {
  const ProductElements most = most_of(products);
  return {layout.take(most.x, precision), layout.take(most.weight, precision), layout.take(most.y, precision),
          layout.take(most.weight, Precision::fp32)};
}

// Results go to an array that is never an input: products of products would grow.
void run(const LayerProduct& p, const ProductArrays& a, Values result, Kernels& kernels) {
  const auto [m, n, k] = p.shape;
  switch (p.form) {
    case ProductForm::forward:
      return kernels.matmul(
          {.m = m, .n = n, .k = k, .x = a.x, .weight = a.weight, .bias = {}, .y = result, .dropout = {}});
    case ProductForm::input_gradient:
      return kernels.matmul({.m = m,
                             .n = k,
                             .k = n,
                             .x = a.y,
                             .weight = a.weight,
                             .transposed = true,
                             .bias = {},
                             .y = result,
                             .dropout = {}});
    case ProductForm::weight_gradient:
      return kernels.weight_gradient(
          {.m = m, .n = n, .k = k, .x = a.x, .dy = a.y, .dw = a.weight_gradient.fp32(), .accumulate = false});
  }
}

// ---- attention

struct AttentionArrays {
  Values qkv, out, dout, dqkv, peak;
  Values mlp;  // gradient of the MLP in a GPT layer of this width, which attention's backward may overwrite
  float* lse = nullptr;
  Values past;                 // [T, 2 H], in tiles only
  float* past_grad = nullptr;  // likewise
};
u64 mlp_elements(const AttentionWork& work) {
  const u64 rows = work.tile_tokens != 0 ? work.tile_tokens : u64{work.shape.sequences} * work.shape.tokens;
  return rows * 4 * work.shape.query_columns();
}
AttentionArrays lay_out(const AttentionWork& work, Layout& layout) {
  const u64 rows = u64{work.shape.sequences} * work.shape.tokens, h = work.shape.query_columns();
  const auto take = [&](u64 elements) { return layout.take(elements, work.precision); };
  AttentionArrays a{
      .qkv = take(3 * rows * h), .out = take(rows * h), .dout = take(rows * h), .dqkv = take(3 * rows * h)};
  a.lse = layout.take(work.shape.lse_elements(), Precision::fp32).fp32();
  a.mlp = take(mlp_elements(work));
  a.peak = take(3 * u64{work.peak_side} * work.peak_side);
  if (work.tile_tokens == 0) return a;
  a.past = take(2 * rows * h);
  a.past_grad = layout.take(2 * rows * h, Precision::fp32).fp32();
  return a;
}

// Calls fn(first token, shape of the tile) for a sequence's tiles; in backward from the last one.
template <class Fn>
void for_tiles(const AttentionWork& work, bool backward, Fn fn) {
  const u32 count = static_cast<u32>(div_up(work.shape.tokens, work.tile_tokens));
  for (u32 i = 0; i < count; ++i) {
    const u32 first = (backward ? count - 1 - i : i) * work.tile_tokens;
    AttentionShape tile = work.shape;
    tile.tokens = std::min(work.tile_tokens, work.shape.tokens - first);
    fn(first, tile);
  }
}

void forward_in_tiles(const AttentionWork& work, const AttentionArrays& a, Kernels& kernels) {
  const u32 h = work.shape.query_columns();
  for_tiles(work, false, [&](u32 first, const AttentionShape& tile) {
    const Values qkv = a.qkv.at(u64{first} * 3 * h);
    kernels.copy_columns({.rows = tile.tokens,
                          .columns = 2 * h,
                          .x = qkv.at(h),
                          .x_stride = 3 * h,
                          .y = a.past.at(u64{first} * 2 * h),
                          .y_stride = 2 * h});
    kernels.attention({.shape = tile,
                       .tile = {a.past, first, work.tile_tokens},
                       .qkv = qkv,
                       .out = a.out.at(u64{first} * h),
                       .lse = a.lse + u64{first} * tile.heads,
                       .dropout = {}});
  });
}

void backward_in_tiles(const AttentionWork& work, const AttentionArrays& a, Kernels& kernels) {
  const u32 h = work.shape.query_columns();
  kernels.zero(a.past_grad, u64{work.shape.tokens} * 2 * h);
  for_tiles(work, true, [&](u32 first, const AttentionShape& tile) {
    kernels.attention_backward({.shape = tile,
                                .tile = {a.past, first, work.tile_tokens},
                                .qkv = a.qkv.at(u64{first} * 3 * h),
                                .out = a.out.at(u64{first} * h),
                                .lse = a.lse + u64{first} * tile.heads,
                                .dout = a.dout.at(u64{first} * h),
                                .dqkv = a.dqkv.at(u64{first} * 3 * h),
                                .dpast = a.past_grad,
                                .dropout = {},
                                .scratch = {a.mlp.data, work.to_come().scratch.value}});
  });
}

}  // namespace

double BenchRow::rate() const { return median(samples); }

std::vector<LayerProduct> layer_products(u32 tokens, u32 hidden) {
  const std::pair<const char*, ProductShape> forward[] = {{"qkv", {tokens, 3 * hidden, hidden}},
                                                          {"projection", {tokens, hidden, hidden}},
                                                          {"mlp in", {tokens, 4 * hidden, hidden}},
                                                          {"mlp out", {tokens, hidden, 4 * hidden}},
                                                          {"head slice", {tokens, 2 * hidden, hidden}}};
  std::vector<LayerProduct> out;
  for (const auto& [name, shape] : forward) {
    out.push_back({name, ProductForm::forward, shape});
    out.push_back({std::string(name) + ", dx", ProductForm::input_gradient, shape});
    out.push_back({std::string(name) + ", dw", ProductForm::weight_gradient, shape});
  }
  return out;
}

Bytes product_memory(const std::vector<LayerProduct>& products, Precision precision) {
  Layout layout(nullptr);
  lay_out(products, precision, layout);
  const ProductElements most = most_of(products);
  layout.take(std::max(most.x, most.y), precision);
  return layout.bytes();
}

Result<std::vector<BenchRow>> bench_products(MeasuredDevice& device,
                                             const std::vector<LayerProduct>& products, Precision precision,
                                             const DeviceBenchOptions& options) {
  CHECK(device.memory().size() >= product_memory(products, precision).value, device.memory().size());
  Layout layout(device.memory().data());
  const ProductArrays arrays = lay_out(products, precision, layout);
  const ProductElements most = most_of(products);
  const Values result = layout.take(std::max(most.x, most.y), precision);
  TRY(fill_device(device, bytes_of(arrays.x, most.x), precision, 0.5f));
  TRY(fill_device(device, bytes_of(arrays.weight, most.weight), precision, 0.5f));
  TRY(fill_device(device, bytes_of(arrays.y, most.y), precision, 0.5f));
  std::vector<BenchRow> rows;
  std::vector<std::pair<double, std::function<void()>>> calls;
  for (const LayerProduct& p : products) {
    device.tune([&](Kernels& kernels) { run(p, arrays, result, kernels); });
    rows.push_back({.name = p.name});
    calls.emplace_back(p.shape.flops(), [&, result] { run(p, arrays, result, device.kernels()); });
  }
  TRY(measure_rounds({device, options.now, options.slice_seconds}, options.repetitions, rows, calls));
  double best = 0;
  for (const BenchRow& row : rows) best = std::max(best, row.rate());
  for (BenchRow& row : rows) row.fraction = row.rate() / best;
  return rows;
}

Bytes AttentionWork::memory() const {
  Layout layout(nullptr);
  lay_out(*this, layout);
  return layout.bytes();
}

AttentionToCome AttentionWork::to_come() const {
  return {
      .shape = shape, .precision = precision, .scratch = Bytes{values_bytes(mlp_elements(*this), precision)}};
}

double AttentionWork::forward_flops() const {
  return 2.0 * shape.sequences * shape.heads * shape.tokens * shape.tokens * shape.head_size;
}

Result<AttentionResult> bench_attention(MeasuredDevice& device, const AttentionWork& work,
                                        const DeviceBenchOptions& options) {
  CHECK(device.memory().size() >= work.memory().value, device.memory().size());
  Layout layout(device.memory().data());
  const AttentionArrays a = lay_out(work, layout);
  const u64 row_elements = u64{work.shape.sequences} * work.shape.tokens * work.shape.query_columns();
  TRY(fill_device(device, bytes_of(a.qkv, 3 * row_elements), work.precision, 1.0f));
  TRY(fill_device(device, bytes_of(a.dout, row_elements), work.precision, 1.0f));
  TRY(fill_device(device, bytes_of(a.peak, 2 * u64{work.peak_side} * work.peak_side), work.precision, 0.5f));
  device.tune([&](Kernels& kernels) { kernels.matmul(square_product(work.peak_side, a.peak)); });
  Kernels& kernels = device.kernels();
  const auto forward = [&] {
    if (work.tile_tokens != 0) return forward_in_tiles(work, a, kernels);
    kernels.attention({.shape = work.shape, .qkv = a.qkv, .out = a.out, .lse = a.lse, .dropout = {}});
  };
  const auto backward = [&] {
    if (work.tile_tokens != 0) return backward_in_tiles(work, a, kernels);
    kernels.attention_backward({.shape = work.shape,
                                .qkv = a.qkv,
                                .out = a.out,
                                .lse = a.lse,
                                .dout = a.dout,
                                .dqkv = a.dqkv,
                                .dropout = {},
                                .scratch = {a.mlp.data, work.to_come().scratch.value}});
  };
  std::vector<BenchRow> rows{{.name = "forward"}, {.name = "backward"}, {.name = "both"}, {.name = "peak"}};
  TRY(measure_rounds({device, options.now, options.slice_seconds}, options.repetitions, rows,
                     {{work.forward_flops(), forward},
                      {work.backward_flops(), backward},
                      {work.forward_flops() + work.backward_flops(), [&] { forward(), backward(); }},
                      {2.0 * work.peak_side * work.peak_side * work.peak_side,
                       [&] { kernels.matmul(square_product(work.peak_side, a.peak)); }}}));
  AttentionResult result{.peak = rows.back().rate()};
  rows.pop_back();
  for (BenchRow& row : rows) row.fraction = row.rate() / result.peak;
  result.rows = std::move(rows);
  return result;
}

Result<CopyResult> bench_copies(Device& device, Bytes plain, const std::vector<Bytes>& pieces,
                                const DeviceBenchOptions& options) {
  const auto host = device.host_memory(), memory = device.memory();
  CHECK(host.size() >= 2 * plain.value && memory.size() >= 2 * plain.value, host.size(), memory.size());
  std::vector<Bytes> sizes{plain};
  sizes.insert(sizes.end(), pieces.begin(), pieces.end());
  std::vector<BenchRow> rows;
  std::vector<std::pair<double, std::function<void()>>> calls;
  const double bytes = static_cast<double>(plain.value);
  for (const Bytes piece : sizes) {
    const auto copy = [&device, memory, work = CopyWork{plain, piece}](CopyDirection way) {
      return [=, &device] { issue_copies(device, memory, work, way); };
    };
    calls.emplace_back(bytes, copy(CopyDirection::h2d));
    calls.emplace_back(bytes, copy(CopyDirection::d2h));
    calls.emplace_back(2 * bytes, copy(CopyDirection::both));
    for (const char* way : {"h2d", "d2h", "both"}) rows.push_back({.name = way});
  }
  TRY(measure_rounds({device, options.now, options.slice_seconds}, options.repetitions, rows, calls));
  CopyResult result{.plain = plain};
  for (u32 i = 0; i < rows.size(); ++i) {
    rows[i].fraction = rows[i].rate() / rows[i % 3].rate();
    if (i < 3) {
      result.plain_rows[i] = rows[i];
    } else {
      if (i % 3 == 0) result.rows.push_back({.piece = sizes[i / 3]});
      result.rows.back().ways[i % 3] = rows[i];
    }
  }
  return result;
}

}  // namespace tidepool
