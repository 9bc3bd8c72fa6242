// GPU meters divide the device's memory among their arrays, then time kernels and copies on it.
#include "probe/gpu_meters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "model/attention.h"
#include "model/blocks.h"
#include "probe/device_layer.h"
#include "probe/fill_device.h"
#include "probe/update_load.h"

namespace tidepool {
namespace {

// Per element of a chunk set of measured_rule in bf16: gradient read; parameter, remainder and two moments
// read and written.
constexpr u64 update_bytes = 2 + 2 * (2 + 2 + 4 + 4), update_held_bytes = 2 + 2 + 2 + 4 + 4;
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

// The input of an update beside the chunk's arrays: scalars of an arbitrary step, and weight decay of the
// whole chunk.
struct UpdateNumbers {
  UpdateScalars scalars;
  DecaySegment whole;
};

// Parts of the device's memory, one after the other.
struct Places {
  std::span<std::byte> fp32_inputs, bf16_inputs, result, layer, gradient, update, update_numbers;
};
Bytes place(const GpuWork& work, std::byte* memory, Places& places) {
  const ProductSizes products = product_sizes(work);
  const Bytes layer = std::max(DeviceLayer::bytes_of(layer_graph(work, Precision::fp32)),
                               DeviceLayer::bytes_of(layer_graph(work, Precision::bf16)));
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
  places.gradient = take(gradient_bytes_per_element * work.elements);
  places.update = take(update_held_bytes * work.elements);
  places.update_numbers = take(sizeof(UpdateNumbers));
  return Bytes{end};
}

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
    TRY(fill_device(device_, places_.update, Precision::bf16, 0.5f));
    TRY(bring_update_numbers());
    TRY_ASSIGN(layer_, DeviceLayer::create(device_, layer_graph(work_, layer_precision(device_.facts())),
                                           places_.layer));
    return {};
  }

  Result<void> measure(Rates& rates) override {
    for (u32 i = 0; i < work_.products.size(); ++i)
      for (const Precision precision : precisions_) TRY(measure_product(i, precision, rates));
    const std::string_view precision = name(layer_precision(device_.facts()));
    TRY(add(rates, layer_key, fmt::format("layer, forward + backward, {}", precision),
            SampleUnit::flops_per_s, layer_->flops(), [&] { layer_->run(); }));
    TRY(add(rates, "device.memory_rate", "gradient kernel", SampleUnit::bytes_per_s,
            static_cast<double>(gradient_bytes_per_element * work_.elements),
            [&] { finish_gradient(work_.elements); }));
    TRY(add(rates, "device.update", fmt::format("{} on the device, bf16", optimizer(measured_rule).title),
            SampleUnit::bytes_per_s, static_cast<double>(update_bytes * work_.elements), [&] { update(); }));
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
               fmt::format("product {} x {} x {}, {}", p.m, p.n, p.k, name(precision)),
               SampleUnit::flops_per_s, p.flops(), [&] { device_.kernels().matmul(product); });
  }

  void finish_gradient(u64 elements) {
    std::byte* const at = places_.gradient.data();
    device_.finish_gradient(reinterpret_cast<const float*>(at), at + 4 * work_.elements, Precision::bf16,
                            elements);
  }

  Result<void> bring_update_numbers() {
    const UpdateStep step = update_step(measured_rule, {.learning_rate = 1e-3}, 100, 1.0);
    const UpdateNumbers numbers{.scalars = update_scalars(step, {.grad_norm = 1.0}),
                                .whole = {0, work_.elements, true}};
    const std::span<std::byte> host = device_.host_memory().first(sizeof numbers);
    std::memcpy(host.data(), &numbers, sizeof numbers);
    device_.copy_h2d(places_.update_numbers, host);
    return device_.wait();
  }

  void update() {
    std::byte* at = places_.update.data();
    const auto take = [&](u64 bytes) { return std::exchange(at, at + bytes); };
    const auto* numbers = reinterpret_cast<const UpdateNumbers*>(places_.update_numbers.data());
    UpdateChunk chunk{.elements = work_.elements, .segments = {&numbers->whole, 1}};
    const StateSlots slots = state_slots(Precision::bf16, measured_rule);
    u32 array = 0;
    const auto add = [&](Kind kind) {
      chunk.arrays[array++].data = take(slots.chunk_bytes(kind, work_.elements));
    };
    chunk.grad = take(2 * work_.elements);
    add(Kind::param);
    slots.each(add);
    device_.update(chunk, slots, measured_rule, &numbers->scalars);
  }

  MeasuredDevice& device_;
  const GpuWork work_;
  const DeviceTimer timer_;
  std::vector<Precision> precisions_{Precision::fp32};
  Places places_;
  std::unique_ptr<DeviceLayer> layer_;
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
    if (work.layer.attention.heads > 2) work.layer.attention.heads /= 2, work.layer.width /= 2;
    if (work.batch.sequences > 1)
      work.batch.sequences /= 2;
    else
      work.batch.tokens = std::max(tokens_least, work.batch.tokens / 2);
    work.elements /= 2;
    work.copies.piece = Bytes{std::max(mib, work.copies.piece.value / 2)};
    work.copies.bytes = Bytes{std::max(2 * mib, work.copies.bytes.value / 2)};
  }
  return work;
}

std::optional<AttentionToCome> GpuWork::attention() const {
  return attention_to_come(layer_graph(*this, Precision::bf16));
}

std::vector<KernelCost> layer_costs(const GpuWork& work, Precision precision) {
  return layer_costs(layer_graph(work, precision));
}

Result<std::unique_ptr<Meter>> create_gpu_compute_meter(MeasuredDevice& device,
                                                        const GpuMeterOptions& options) {
  auto meter = std::make_unique<GpuComputeMeter>(device, options);
  TRY(meter->prepare());
  return std::unique_ptr<Meter>(std::move(meter));
}

}  // namespace tidepool
