#include <fmt/format.h>

#include <algorithm>

#include "kernels/gradient/gradient.h"
#include "machine/wake_up.h"
#include "probe/layer_load.h"
#include "probe/meter.h"
#include "probe/products.h"
#include "probe/timing.h"

namespace tidepool {
namespace {

constexpr u64 gradient_bytes_per_element = 4 + 2;  // accumulator read, bf16 gradient written

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
  ComputeMeter(std::unique_ptr<Kernels> kernels, CorePool& pool, const MeterOptions& options)
      : options_(options),
        kernels_(std::move(kernels)),
        gradient_(std::min<u64>(options.memory.value / 2, 128 * mib) / gradient_bytes_per_element, pool) {
    for (const Product& product : products) loads_.emplace_back(product);
  }

  Result<void> prepare() {
    TRY_ASSIGN(layer_, LayerLoad::create(*kernels_));
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
              SampleUnit::flops_per_s,
              rate_of(product.flops(), options_.slice_seconds, [&] { loads_[i].run(*kernels_, precision); }));
  }

  const MeterOptions options_;
  const std::unique_ptr<Kernels> kernels_;
  std::vector<ProductLoad> loads_;
  GradientLoad gradient_;
  std::unique_ptr<LayerLoad> layer_;
};

}  // namespace

std::string product_key(Precision precision, u32 product) {
  return fmt::format("product.{}.{}", name(precision), product);
}

Result<std::unique_ptr<Meter>> create_compute_meter(CorePool& pool, const MeterOptions& options) {
  auto meter = std::make_unique<ComputeMeter>(create_cpu_kernels(pool), pool, options);
  TRY(meter->prepare());
  return std::unique_ptr<Meter>(std::move(meter));
}

}  // namespace tidepool
