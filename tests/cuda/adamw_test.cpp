// AdamW on the device leaves the same bits as on the CPU.
#include "kernels/adamw/adamw.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gradient/gradient.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::adamw_test {

using CudaAdamWTest = CudaTest;

std::vector<std::byte> raw(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// A chunk set in host memory, kind by kind, with the arguments it was made from.
struct HostChunk {
  Precision precision;
  u64 elements;
  std::vector<std::byte> grad, param, low, momentum, variance;  // low: or fp16's master

  HostChunk(Precision p, u64 n) : precision(p), elements(n) {
    auto grads = random_floats(n, 1, 0.1f), params = random_floats(n, 2);
    auto variances = random_floats(n, 4, 1e-3f);
    for (float& v : variances) v = std::abs(v);
    if (n > 2) variances[1] = 1e-40f, grads[1] = 0, params[2] = std::numeric_limits<float>::max();
    momentum = raw(random_floats(n, 3, 0.01f));
    variance = raw(variances);
    if (p == Precision::fp32) {
      grad = raw(grads), param = raw(params);
      return;
    }
    std::vector<u16> remainder(n);
    for (u64 i = 0; i < n; ++i) remainder[i] = low_from_float(params[i]);
    grad = raw(HalfCopy(grads, p).bits), param = raw(HalfCopy(params, p).bits);
    low = p == Precision::fp16 ? raw(params) : raw(remainder);
  }
  AdamWChunk chunk(std::span<const DecaySegment> segments) {
    return {.elements = elements,
            .grad = grad.data(),
            .param = param.data(),
            .master = low.empty() ? nullptr : low.data(),
            .momentum = reinterpret_cast<float*>(momentum.data()),
            .variance = reinterpret_cast<float*>(variance.data()),
            .segments = segments};
  }
  auto state() const { return std::tie(param, low, momentum, variance); }
};

// A copy of the chunk set on the device. Arrays lie `shift` bytes off the alignment of vectors.
struct DeviceChunk {
  DeviceArray grad, param, low, momentum, variance, segments;
  u64 segment_count;

  DeviceChunk(const HostChunk& h, const std::vector<DecaySegment>& decay, u64 shift)
      : grad(h.grad.data(), h.grad.size(), shift),
        param(h.param.data(), h.param.size(), shift),
        low(h.low.data(), h.low.size(), shift),
        momentum(h.momentum.data(), h.momentum.size(), shift),
        variance(h.variance.data(), h.variance.size(), shift),
        segments(decay.data(), decay.size() * sizeof(DecaySegment)),
        segment_count(decay.size()) {}

  AdamWChunk chunk(const HostChunk& h) const {
    return {.elements = h.elements,
            .grad = grad.data(),
            .param = param.data(),
            .master = h.low.empty() ? nullptr : low.data(),
            .momentum = momentum.as<float>(),
            .variance = variance.as<float>(),
            .segments = {segments.as<const DecaySegment>() + 0, segment_count}};
  }
  HostChunk now(const HostChunk& like) const {
    HostChunk h = like;
    for (auto [to, from] : {std::pair(&h.grad, &grad),
                            {&h.param, &param},
                            {&h.low, &low},
                            {&h.momentum, &momentum},
                            {&h.variance, &variance}})
      *to = from->values<std::byte>();
    return h;
  }
};

class CudaAdamW : public CudaAdamWTest {
 protected:
  void expect_the_cpus_bits(Precision precision, u64 n, const std::vector<DecaySegment>& segments,
                            double norm, u64 shift = 0) {
    SCOPED_TRACE(testing::Message() << n << " " << tidepool::name(precision));
    HostChunk host(precision, n);
    // In fp16 the gradient may lie in the bytes of the parameters.
    if (precision == Precision::fp16) host.param = host.grad;
    const DeviceChunk device(host, segments, shift);
    const AdamWScalars scalars = adamw_scalars({.learning_rate = 1e-3, .weight_decay = 0.1}, 3, norm, 1.0);
    const DeviceArray on_device(&scalars, sizeof(scalars));
    for (u32 step = 0; step < 2; ++step) {
      adamw(host.chunk(segments), precision, scalars, *pool_);
      adamw_cuda(device.chunk(host), precision, on_device.as<AdamWScalars>(), stream_);
      synchronize();
      EXPECT_TRUE(device.now(host).state() == host.state());
    }
    EXPECT_EQ(device.now(host).grad, host.grad);
  }

  std::unique_ptr<CorePool> pool_ = make_pool(1);
};

TEST_F(CudaAdamW, GivesTheSameBitsAsTheCpu) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const u64 n : {1, 7, 8, 9, 2048, 4096 + 33}) expect_the_cpus_bits(precision, n, {{0, n, true}}, 2.0);
    expect_the_cpus_bits(precision, 2048, {{0, 2048, true}}, 0.25, 4);  // not clipped, not aligned
  }
}

TEST_F(CudaAdamW, SegmentsOfDecayBeginAnywhere) {
  const std::vector<DecaySegment> segments = {
      {0, 3, true}, {3, 1000, false}, {1000, 1001, true}, {1001, 1003, false}, {1003, 4096, true}};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_the_cpus_bits(precision, 4096, segments, 1.5);
    expect_the_cpus_bits(precision, 4096, segments, 1.5, 2 * sizeof(float));
  }
}

TEST_F(CudaAdamW, ASkippedStepLeavesTheState) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    expect_the_cpus_bits(precision, 2048, {{0, 2048, true}}, nan);
}

TEST_F(CudaAdamW, NaNsAndInfinitiesAreSplitLikeAnyOther) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  HostChunk host(Precision::bf16, 64);
  const auto set = [](std::vector<std::byte>& to, u64 i, u16 bits) { std::memcpy(&to[2 * i], &bits, 2); };
  set(host.grad, 5, bf16_from_float(nan));
  for (auto [i, value] : {std::pair(40, inf), {41, -inf}, {42, nan}}) {
    set(host.param, i, bf16_from_float(value));
    set(host.low, i, low_from_float(value));
  }
  const std::vector<DecaySegment> segments = {{0, 64, true}};
  const DeviceChunk device(host, segments, 0);
  const AdamWScalars scalars = adamw_scalars({.learning_rate = 1e-3, .weight_decay = 0.1}, 1, 0, 0);
  const DeviceArray on_device(&scalars, sizeof(scalars));
  adamw(host.chunk(segments), Precision::bf16, scalars, *pool_);
  adamw_cuda(device.chunk(host), Precision::bf16, on_device.as<AdamWScalars>(), stream_);
  synchronize();
  EXPECT_EQ(device.now(host).param, host.param);
  EXPECT_EQ(device.now(host).low, host.low);
}

TEST_F(CudaAdamW, ScalarsAreTheHosts) {
  const AdamWSettings settings = {.learning_rate = 3e-4, .beta2 = 0.95, .weight_decay = 0.1};
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double max_norm : {0.0, 1.0}) {
    for (const double norm : {0.0, 0.3, 1.0, 17.3, 1e300, inf, nan}) {
      for (const u64 t : {1, 1000}) {
        const StepResult result = step_result({.loss = 2.5, .grad_norm = norm, .target_tokens = 100});
        const DeviceArray from(&result, sizeof(result)), to(sizeof(AdamWScalars));
        adamw_scalars_cuda(adamw_step(settings, t, max_norm), from.as<StepResult>(), to.as<AdamWScalars>(),
                           stream_);
        synchronize();
        const AdamWScalars want = adamw_scalars(settings, t, norm, max_norm), got = to.value<AdamWScalars>();
        EXPECT_EQ(got.grad_to_momentum, want.grad_to_momentum);
        EXPECT_EQ(got.grad_to_root, want.grad_to_root);
        EXPECT_EQ(got.root_factor, want.root_factor);
        EXPECT_EQ(got.root_offset, want.root_offset);
        EXPECT_EQ(got.decay, want.decay);
        EXPECT_EQ(got.grad_scale, want.grad_scale);
        EXPECT_EQ(got.beta1, want.beta1);
        EXPECT_EQ(got.beta2, want.beta2);
        EXPECT_EQ(got.skip, want.skip);
      }
    }
  }
}

// A scale of 3 is not a power of two: dividing it out rounds, and both sides must round alike.
TEST_F(CudaAdamW, TheLossScaleIsDividedOutAsOnTheHost) {
  const AdamWStep step = adamw_step({.learning_rate = 3e-4}, 7, 1.0);
  const StepResult result = step_result(
      {.loss = 2.5, .grad_norm = 100, .target_tokens = 100, .loss_scale = {.scale = 3, .skipped_steps = 2}});
  const DeviceArray from(&result, sizeof(result)), to(sizeof(AdamWScalars));
  adamw_scalars_cuda(step, from.as<StepResult>(), to.as<AdamWScalars>(), stream_);
  synchronize();
  const AdamWScalars want = adamw_scalars(step, result), got = to.value<AdamWScalars>();
  EXPECT_EQ(got.grad_to_momentum, want.grad_to_momentum);
  EXPECT_EQ(got.grad_to_root, want.grad_to_root);
  EXPECT_EQ(got.grad_scale, want.grad_scale);
  EXPECT_LT(want.grad_to_momentum, adamw_scalars(step, {.grad_norm = 100.0 / 3}).grad_to_momentum);
}

TEST_F(CudaAdamW, WithoutClippingNoNormIsWaitedFor) {
  const DeviceArray to(sizeof(AdamWScalars));
  adamw_scalars_cuda(adamw_step({.learning_rate = 1e-3}, 5, 0), nullptr, to.as<AdamWScalars>(), stream_);
  synchronize();
  EXPECT_EQ(to.value<AdamWScalars>().grad_scale, 1.0f);
  EXPECT_FALSE(to.value<AdamWScalars>().skip);
}

}  // namespace tidepool::test::adamw_test
