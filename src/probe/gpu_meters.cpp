#include "probe/gpu_meters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/check.h"
#include "model/block_layouts.h"
#include "model/blocks.h"
#include "probe/gpu_layer.h"

namespace tidepool {
namespace {

constexpr u64 gradient_bytes = 4 + 2;  // per element: accumulator read, bf16 gradient written
// Per element of a chunk set: gradient read; parameter, remainder and two moments read and written.
constexpr u64 adam_bytes = 2 + 2 * (2 + 2 + 4 + 4), adam_held_bytes = 2 + 2 + 2 + 4 + 4;
constexpr u64 tiny_elements = 1;

ModelGraph layer_graph(const GpuWork& work, Precision precision) {
  auto graph = build_model(work.layer, precision, work.batch, precision);
  CHECK(graph.has_value(), work.layer.width, work.batch.tokens);
  return std::move(graph).value();
}

struct ProductSizes {
  u64 inputs = 0, result = 0;  // elements, of the largest product
};
ProductSizes product_sizes(const GpuWork& work) {
  ProductSizes most;
  for (const ProductShape& p : work.products) {
    most.inputs = std::max(most.inputs, (u64{p.m} + p.n) * p.k);
    most.result = std::max(most.result, u64{p.m} * p.n);
  }
  return most;
}

// Parts of the device's memory, one after the other.
struct Places {
  std::span<std::byte> fp32_inputs, bf16_inputs, result, layer, gradient, adam;
};
Bytes place(const GpuWork& work, std::byte* memory, Places& places) {
  const ProductSizes products = product_sizes(work);
  const Bytes layer = std::max(GpuLayer::bytes_of(layer_graph(work, Precision::fp32)),
                               GpuLayer::bytes_of(layer_graph(work, Precision::bf16)));
  u64 end = 0;
  const auto take = [&](u64 bytes) {
    const u64 begin = end;
    end = round_up(end + bytes, frame_alignment);
    return std::span(memory + begin, bytes);
  };
  places.fp32_inputs = take(4 * products.inputs);
  places.bf16_inputs = take(2 * products.inputs);
  places.result = take(4 * products.result);
  places.layer = take(layer.value);
  places.gradient = take(gradient_bytes * work.elements);
  places.adam = take(adam_held_bytes * work.elements);
  return Bytes{end};
}

std::string_view name_of(Precision precision) { return precision == Precision::bf16 ? "bf16" : "fp32"; }

class GpuComputeMeter final : public Meter {
 public:
  GpuComputeMeter(MeasuredDevice& device, const GpuMeterOptions& options)
      : device_(device), work_(options.work), timer_{device, options.now, options.slice_seconds} {}

  Result<void> prepare() {
    CHECK(place(work_, device_.memory().data(), places_).value <= device_.memory().size(),
          device_.memory().size());
    if (device_.facts().has_bf16) precisions_.push_back(Precision::bf16);
    for (const Precision precision : precisions_)
      TRY(fill_device(device_, inputs(precision), precision, 0.5f));
    TRY(fill_device(device_, places_.gradient, Precision::fp32, 0.5f));
    TRY(fill_device(device_, places_.adam, Precision::bf16, 0.5f));
    TRY_ASSIGN(layer_, GpuLayer::create(device_, layer_graph(work_, layer_precision(device_.facts())),
                                        places_.layer));
    return {};
  }

  Result<void> measure(Rates& rates) override {
    for (u32 i = 0; i < work_.products.size(); ++i)
      for (const Precision precision : precisions_) TRY(measure_product(i, precision, rates));
    const std::string_view precision = name_of(layer_precision(device_.facts()));
    TRY(add(rates, layer_key, fmt::format("layer, forward + backward, {}", precision),
            SampleUnit::flops_per_s, layer_->flops(), [&] { layer_->run(); }));
    TRY(add(rates, "device.memory_rate", "gradient kernel", SampleUnit::bytes_per_s,
            static_cast<double>(gradient_bytes * work_.elements), [&] { finish_gradient(work_.elements); }));
    TRY(add(rates, "device.adam", "AdamW on the device, bf16", SampleUnit::bytes_per_s,
            static_cast<double>(adam_bytes * work_.elements), [&] { adamw(); }));
    // Not Kernels::zero, which is a fill of the driver: fills may start faster than kernels.
    TRY_ASSIGN(const double launches, timer_.rate(1, [&] { finish_gradient(tiny_elements); }));
    rates.add(launch_key, "a small kernel after another", SampleUnit::seconds, 1 / launches);
    return {};
  }

 private:
  Result<void> add(Rates& rates, std::string_view key, std::string_view what, SampleUnit unit, double work,
                   const std::function<void()>& call) {
    TRY_ASSIGN(const double rate, timer_.rate(work, call));
    rates.add(key, what, unit, rate);
    return {};
  }
  std::span<std::byte> inputs(Precision precision) const {
    return precision == Precision::fp32 ? places_.fp32_inputs : places_.bf16_inputs;
  }

  Result<void> measure_product(u32 i, Precision precision, Rates& rates) {
    const ProductShape& p = work_.products[i];
    const Values x{inputs(precision).data(), precision};
    const Matmul product{.m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .x = x,
                         .weight = x.at(u64{p.m} * p.k),
                         .bias = {},
                         .y = {places_.result.data(), precision},
                         .dropout = {}};
    device_.tune([&](Kernels& kernels) { kernels.matmul(product); });
    return add(rates, product_key(precision, i),
               fmt::format("product {} x {} x {}, {}", p.m, p.n, p.k, name_of(precision)),
               SampleUnit::flops_per_s, p.flops(), [&] { device_.kernels().matmul(product); });
  }

  void finish_gradient(u64 elements) {
    std::byte* const at = places_.gradient.data();
    device_.finish_gradient(reinterpret_cast<const float*>(at), at + 4 * work_.elements, Precision::bf16,
                            elements);
  }

  void adamw() {
    std::byte* at = places_.adam.data();
    const auto take = [&](u64 width) { return std::exchange(at, at + width * work_.elements); };
    AdamWChunk chunk{.elements = work_.elements};
    chunk.momentum = reinterpret_cast<float*>(take(4));
    chunk.variance = reinterpret_cast<float*>(take(4));
    chunk.grad = take(2), chunk.param = take(2), chunk.master = take(2);
    device_.adamw(chunk, Precision::bf16);
  }

  MeasuredDevice& device_;
  const GpuWork work_;
  const DeviceTimer timer_;
  std::vector<Precision> precisions_{Precision::fp32};
  Places places_;
  std::unique_ptr<GpuLayer> layer_;
};

class GpuCopyMeter final : public Meter {
 public:
  GpuCopyMeter(MeasuredDevice& device, const GpuMeterOptions& options)
      : device_(device), work_(options.work), timer_{device, options.now, options.slice_seconds} {
    CHECK(device.memory().size() >= work_.memory().value &&
              device.host_memory().size() >= work_.host_memory().value,
          device.host_memory().size());
  }

  Result<void> measure(Rates& rates) override {
    const double bytes = static_cast<double>(work_.piece.value * work_.pieces);
    TRY_ASSIGN(const double h2d, timer_.rate(bytes, [&] { copy(true, false); }));
    TRY_ASSIGN(const double d2h, timer_.rate(bytes, [&] { copy(false, true); }));
    TRY_ASSIGN(const double both, timer_.rate(2 * bytes, [&] { copy(true, true); }));
    rates.add("copies.h2d", "copies, host to device", SampleUnit::bytes_per_s, h2d);
    rates.add("copies.d2h", "copies, device to host", SampleUnit::bytes_per_s, d2h);
    rates.add("copies.both", "both at once, sum", SampleUnit::bytes_per_s, both);
    return {};
  }

 private:
  // Copies up and down in turns, so that both directions begin together. The memory of both directions never
  // overlaps, and lies behind the operands of the other measurements: a product of copied zeros is too fast.
  void copy(bool up, bool down) {
    const auto piece = [&](std::span<std::byte> memory, u32 i) {
      return memory.subspan(i * work_.piece.value, work_.piece.value);
    };
    const auto host = device_.host_memory(), device = device_.memory().last(work_.host_memory().value);
    for (u32 i = 0; i < work_.pieces; ++i) {
      if (up) device_.copy_h2d(piece(device, i), piece(host, i));
      if (down) device_.copy_d2h(piece(host, work_.pieces + i), piece(device, work_.pieces + i));
    }
  }

  MeasuredDevice& device_;
  const GpuWork work_;
  const DeviceTimer timer_;
};

}  // namespace

Bytes GpuWork::memory() const {
  Places places;
  return place(*this, nullptr, places) + host_memory();
}

GpuWork work_within(GpuWork work, Bytes memory) {
  constexpr u32 side_least = 256, tokens_least = 128;
  constexpr u64 elements_least = mib;
  while (work.memory() > memory && work.elements > elements_least) {
    for (ProductShape& p : work.products)
      for (u32* const side : {&p.m, &p.n, &p.k}) *side = std::max(side_least, *side / 2);
    if (work.layer.heads > 2) work.layer.heads /= 2, work.layer.width /= 2;
    work.batch.tokens = std::max(tokens_least, work.batch.tokens / 2);
    work.elements /= 2;
    work.piece = Bytes{std::max(mib, work.piece.value / 2)};
  }
  return work;
}

std::optional<AttentionToCome> GpuWork::attention() const {
  return attention_to_come(layer_graph(*this, Precision::bf16));
}

std::vector<KernelCost> layer_costs(const GpuWork& work, Precision precision) {
  const ModelGraph graph = layer_graph(work, precision);
  const Block& block = graph.blocks[1];
  std::vector<KernelCost> out = block.forward_kernels;
  out.insert(out.end(), block.backward_kernels.begin(), block.backward_kernels.end());
  out.insert(out.end(), block.recompute_kernels.begin(), block.recompute_kernels.end());
  return out;
}

Result<std::unique_ptr<Meter>> create_gpu_compute_meter(MeasuredDevice& device,
                                                        const GpuMeterOptions& options) {
  auto meter = std::make_unique<GpuComputeMeter>(device, options);
  TRY(meter->prepare());
  return std::unique_ptr<Meter>(std::move(meter));
}

std::unique_ptr<Meter> create_gpu_copy_meter(MeasuredDevice& device, const GpuMeterOptions& options) {
  return std::make_unique<GpuCopyMeter>(device, options);
}

}  // namespace tidepool
