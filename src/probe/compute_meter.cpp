#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/gradient/gradient.h"
#include "machine/wake_up.h"
#include "model/blocks.h"
#include "probe/device_layer.h"
#include "probe/meter.h"
#include "probe/products.h"
#include "probe/timing.h"

namespace tidepool {
namespace {

// About 30 GFLOP: a quarter of a second on two cores, and enough tasks for many cores.
constexpr ModelConfig cores_layer{
    .vocab_size = 256, .positions = 512, .width = 768, .layers = 1, .attention = {.heads = 12}};
constexpr BatchShape cores_batch{.sequences = 1, .tokens = 512};

ModelGraph cores_layer_graph() {
  auto graph = build_model(cores_layer, Precision::bf16, cores_batch);
  CHECK(graph.has_value());
  return std::move(graph).value();
}

// GradientLoad is the end of a window's backward: the kernel that streams memory and computes little.
class GradientLoad {
 public:
  GradientLoad(u64 elements, CorePool& pool)
      : pool_(pool),
        accumulator_(elements, 0.5f),
        grad_(2 * elements),
        partials_(div_up(elements, norm_granule_elements)) {}

  void run() {
    const float* accumulators[] = {accumulator_.data()};
    finish_gradient(accumulators, grad_.data(), Precision::bf16, accumulator_.size(), pool_);
    norm_partials(grad_.data(), Precision::bf16, accumulator_.size(), partials_, pool_);
  }
  double bytes() const { return static_cast<double>(gradient_bytes_per_element * accumulator_.size()); }

 private:
  CorePool& pool_;
  std::vector<float> accumulator_;
  std::vector<std::byte> grad_;
  std::vector<double> partials_;
};

class ComputeMeter final : public Meter {
 public:
  ComputeMeter(MeasuredDevice& cores, CorePool& pool, const MeterOptions& options)
      : options_(options),
        cores_(cores),
        gradient_(std::min<u64>(options.memory.value / 2, 128 * mib) / gradient_bytes_per_element, pool) {
    for (const Product& product : products) loads_.emplace_back(product);
  }

  Result<void> prepare() {
    TRY_ASSIGN(layer_, DeviceLayer::create(cores_, cores_layer_graph(), cores_.memory()));
    return {};
  }

  Result<void> measure(Rates& rates) override {
    for (u32 i = 0; i < loads_.size(); ++i) {
      measure_product(i, Precision::fp32, rates);
      measure_product(i, Precision::bf16, rates);
    }
    rates.add(layer_key, "layer, forward + backward, bf16", SampleUnit::flops_per_s,
              rate_of(layer_->flops(), options_.slice_seconds, [&] { layer_->run(); }));
    rates.add("device.memory_rate", "gradient kernel", SampleUnit::bytes_per_s,
              rate_of(gradient_.bytes(), options_.slice_seconds, [&] { gradient_.run(); }));
    TRY_ASSIGN(const double wake_up, wake_up_seconds());
    rates.add(wake_up_key, "wake-up of a thread", SampleUnit::seconds, wake_up);
    return {};
  }

 private:
  void measure_product(u32 i, Precision precision, Rates& rates) {
    const Product& product = products[i];
    rates.add(product_key(precision, i), fmt::format("product {}, {}", product.name, name(precision)),
              SampleUnit::flops_per_s, rate_of(product.flops(), options_.slice_seconds, [&] {
                loads_[i].run(cores_.kernels(), precision);
              }));
  }

  const MeterOptions options_;
  MeasuredDevice& cores_;
  std::vector<ProductLoad> loads_;
  GradientLoad gradient_;
  std::unique_ptr<DeviceLayer> layer_;
};

}  // namespace

std::string product_key(Precision precision, u32 product) {
  return fmt::format("product.{}.{}", name(precision), product);
}

Bytes cores_layer_memory() { return DeviceLayer::bytes_of(cores_layer_graph()); }

std::vector<KernelCost> cores_layer_costs() { return layer_costs(cores_layer_graph()); }

Result<std::unique_ptr<Meter>> create_compute_meter(MeasuredDevice& cores, CorePool& pool,
                                                    const MeterOptions& options) {
  auto meter = std::make_unique<ComputeMeter>(cores, pool, options);
  TRY(meter->prepare());
  return std::unique_ptr<Meter>(std::move(meter));
}

}  // namespace tidepool
