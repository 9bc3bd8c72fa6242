// Updates on the device leave the same bits as on the CPU.
#include <cmath>
#include <deque>
#include <limits>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "optimizers/optimizers_cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/update_state.h"

namespace tidepool::test::update_test {

// A copy of the chunk set on the device. Arrays lie `shift` bytes off the alignment of vectors.
struct DeviceState {
  DeviceArray grad;
  std::deque<DeviceArray> arrays;
  DeviceArray segments;
  u64 segment_count;
  Rounding rounding;

  DeviceState(const UpdateState& h, u64 shift)
      : grad(h.grad.data(), h.grad.size(), shift),
        segments(h.segments.data(), h.segments.size() * sizeof(DecaySegment)),
        segment_count(h.segments.size()),
        rounding(h.rounding) {
    for (const std::vector<std::byte>& array : h.arrays)
      arrays.emplace_back(array.data(), array.size(), shift);
  }

  UpdateChunk chunk(u64 elements) const {
    UpdateChunk c{.elements = elements,
                  .grad = grad.data(),
                  .segments = {segments.as<const DecaySegment>() + 0, segment_count},
                  .rounding = rounding};
    for (u32 a = 0; a < arrays.size(); ++a) c.arrays[a].data = arrays[a].data();
    return c;
  }
  std::vector<std::vector<std::byte>> now() const {
    std::vector<std::vector<std::byte>> out;
    for (const DeviceArray& array : arrays) out.push_back(array.values<std::byte>());
    return out;
  }
};

class CudaUpdate : public CudaTest, public ::testing::WithParamInterface<Optim> {
 protected:
  void update_on_device(const UpdateChunk& chunk, const StateSlots& slots, const DeviceArray& scalars) {
    for (const UpdatePart part : parts_of(GetParam()))
      update_cuda(part_of(chunk, slots, part), slots.precision(), part, GetParam(),
                  scalars.as<UpdateScalars>(), stream_);
  }
  void expect_the_cpus_bits(Precision precision, u64 n, const std::vector<DecaySegment>& segments,
                            double norm, u64 shift = 0) {
    SCOPED_TRACE(testing::Message() << n << " " << tidepool::name(precision));
    UpdateState host(GetParam(), precision, n);
    if (n > 2) {
      host.set_grad(1, 0), host.set_master(2, std::numeric_limits<float>::max());
      host.set_state(host.rule_slots() - 1, 1, 1e-40f);
    }
    host.segments = segments;
    // In fp16 the gradient may lie in the bytes of the parameters.
    if (precision == Precision::fp16) host.arrays[0] = host.grad;
    const DeviceState device(host, shift);
    const UpdateScalars scalars = update_scalars_of(GetParam(), 3, norm);
    const DeviceArray on_device(&scalars, sizeof(scalars));
    for (u32 step = 0; step < 2; ++step) {
      host.update(scalars, *pool_);
      update_on_device(device.chunk(n), host.slots, on_device);
      synchronize();
      EXPECT_TRUE(device.now() == host.arrays);
    }
    EXPECT_EQ(device.grad.values<std::byte>(), host.grad);
  }

  std::unique_ptr<CorePool> pool_ = make_pool(1);
};
INSTANTIATE_TEST_SUITE_P(Rules, CudaUpdate, ::testing::ValuesIn(rules_of_elements),
                         [](const auto& info) { return std::string(tidepool::name(info.param)); });

TEST_P(CudaUpdate, GivesTheSameBitsAsTheCpu) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const u64 n : {1, 7, 8, 9, 2048, 4096 + 33}) expect_the_cpus_bits(precision, n, {{0, n, true}}, 2.0);
    expect_the_cpus_bits(precision, 2048, {{0, 2048, true}}, 0.25, 4);  // not clipped, not aligned
  }
}

TEST_P(CudaUpdate, SegmentsOfDecayBeginAnywhere) {
  const std::vector<DecaySegment> segments = {
      {0, 3, true}, {3, 1000, false}, {1000, 1001, true}, {1001, 1003, false}, {1003, 4096, true}};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_the_cpus_bits(precision, 4096, segments, 1.5);
    expect_the_cpus_bits(precision, 4096, segments, 1.5, 2 * sizeof(float));
  }
}

TEST_P(CudaUpdate, ASkippedStepLeavesTheState) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    expect_the_cpus_bits(precision, 2048, {{0, 2048, true}}, nan);
}

TEST_P(CudaUpdate, NaNsAndInfinitiesAreSplitLikeAnyOther) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  UpdateState host(GetParam(), Precision::bf16, 64);
  host.set_grad(5, nan);
  host.set_master(40, inf), host.set_master(41, -inf), host.set_master(42, nan);
  const DeviceState device(host, 0);
  const UpdateScalars scalars = update_scalars_of(GetParam(), 1, 0);
  const DeviceArray on_device(&scalars, sizeof(scalars));
  host.update(scalars, *pool_);
  update_on_device(device.chunk(64), host.slots, on_device);
  synchronize();
  EXPECT_EQ(device.now()[0], host.arrays[0]);
  EXPECT_EQ(device.now()[1], host.arrays[1]);
}

TEST_P(CudaUpdate, ScalarsAreTheHosts) {
  const OptimizerSettings settings = {.learning_rate = 3e-4, .beta2 = 0.95, .weight_decay = 0.1};
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double max_norm : {0.0, 1.0})
    for (const double norm : {0.0, 0.3, 1.0, 17.3, 1e300, inf, nan})
      for (const u64 t : {1, 1000}) {
        const StepResult result = step_result({.sums = Sums::of_loss(2.5), .grad_norm = norm, .target_tokens = 100});
        const UpdateStep step = update_step(GetParam(), settings, t, max_norm);
        const DeviceArray from(&result, sizeof(result)), to(sizeof(UpdateScalars));
        update_scalars_cuda(step, from.as<StepResult>(), to.as<UpdateScalars>(), stream_);
        synchronize();
        const UpdateScalars want = update_scalars(step, result), got = to.value<UpdateScalars>();
        EXPECT_EQ(got.factors, want.factors);
        EXPECT_EQ(got.decay, want.decay);
        EXPECT_EQ(got.no_decay, want.no_decay);
        EXPECT_EQ(got.clip, want.clip);
        EXPECT_EQ(got.skip, want.skip);
        EXPECT_EQ(got.of_gradient, want.of_gradient);
      }
}

// A scale of 3 is not a power of two: dividing it out rounds, and both sides must round alike.
TEST_P(CudaUpdate, TheLossScaleIsDividedOutAsOnTheHost) {
  const UpdateStep step = update_step(GetParam(), {.learning_rate = 3e-4}, 7, 1.0);
  const StepResult result = step_result(
      {.sums = Sums::of_loss(2.5), .grad_norm = 100, .target_tokens = 100, .loss_scale = {.scale = 3, .skipped_steps = 2}});
  const DeviceArray from(&result, sizeof(result)), to(sizeof(UpdateScalars));
  update_scalars_cuda(step, from.as<StepResult>(), to.as<UpdateScalars>(), stream_);
  synchronize();
  const UpdateScalars want = update_scalars(step, result), got = to.value<UpdateScalars>();
  EXPECT_EQ(got.of_gradient, want.of_gradient);
  EXPECT_EQ(got.clip, want.clip);
  EXPECT_LT(want.of_gradient[0], update_scalars(step, {.grad_norm = 100.0 / 3}).of_gradient[0]);
}

TEST_P(CudaUpdate, WithoutClippingNoNormIsWaitedFor) {
  const DeviceArray to(sizeof(UpdateScalars));
  update_scalars_cuda(update_step(GetParam(), {.learning_rate = 1e-3}, 5, 0), nullptr, to.as<UpdateScalars>(),
                      stream_);
  synchronize();
  EXPECT_EQ(to.value<UpdateScalars>().clip, 1.0f);
  EXPECT_FALSE(to.value<UpdateScalars>().skip);
}

}  // namespace tidepool::test::update_test
