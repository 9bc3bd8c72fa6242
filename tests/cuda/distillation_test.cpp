// Tests distillation on the device against the CPU: the loss, the gradients of logits, and the tokens that a
// teacher finds most probable.
#include <fmt/format.h>

#include <cmath>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/distillation/distillation_launch.h"
#include "kernels/kernels.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/places.h"
#include "tidepool/ignored_target.h"

namespace tidepool::test::distillation_test {

constexpr u32 rows = 9, vocabulary = 301, k = 7;
struct Cut {
  u32 begin, columns;
};
constexpr Cut cuts[] = {{0, 5}, {5, 200}, {205, 96}};  // the first has fewer tokens than are kept

struct Case {
  Precision precision{};
  DivergenceRule rule;
  float cap = 0;
};

class CudaDistillation : public CudaTest, public testing::WithParamInterface<Case> {
 protected:
  CudaDistillation() {
    for (u32 row = 0; row < rows; ++row)
      targets.push_back(row == 2 ? ignored_target : row == 6 ? padding_target : i32(row * 31 % vocabulary));
    for (u32 row = 0; row < rows; ++row) {
      for (u32 i = 0; i < k; ++i) distributions.push_back(-0.5f - float(i) - 0.1f * float(row));
      for (u32 i = 0; i < k; ++i) distributions.push_back(float((row * 17 + i * 43) % vocabulary));
    }
    const auto all = random_floats(u64{rows} * vocabulary, 5, 4.0f);
    for (const Cut& cut : cuts) {
      std::vector<float> slice;
      for (u32 row = 0; row < rows; ++row) {
        const auto from = all.begin() + row * vocabulary + cut.begin;
        slice.insert(slice.end(), from, from + cut.columns);
      }
      on_device.push_back(std::make_unique<DeviceValues>(slice, GetParam().precision));
      on_host.push_back(on_device.back()->given());
    }
  }

  LogitsSlice slice(u32 i, Values logits, const i32* targets_at, RowLoss* losses) const {
    return {.rows = rows,
            .begin = cuts[i].begin,
            .columns = cuts[i].columns,
            .logits = logits,
            .targets = targets_at,
            .losses = losses,
            .cap = GetParam().cap};
  }
  LogitsSlice slice(u32 i) {
    return slice(i, {reinterpret_cast<std::byte*>(on_host[i].data()), Precision::fp32}, targets.data(),
                 losses.data());
  }

  std::vector<i32> targets;
  std::vector<float> distributions;
  std::vector<std::unique_ptr<DeviceValues>> on_device;
  std::vector<std::vector<float>> on_host;
  std::vector<RowLoss> losses = std::vector<RowLoss>(rows);
  const std::unique_ptr<CorePool> pool = make_pool(2);
};

TEST_P(CudaDistillation, LossesAndGradientsAreThoseOfTheCpu) {
  DivergenceRule rule = GetParam().rule;
  rule.top_k = k;
  std::vector<float> logits(rows * k);
  TeacherTokens tokens = {rule, rows, targets.data(), distributions.data(), logits.data()};
  std::vector<double> of_rows(rows);
  std::vector<RowFactors> factors(rows);
  double sum = 1;
  for (u32 i = 0; i < std::size(cuts); ++i) {
    cross_entropy_slice_cpu(slice(i), *pool);
    take_teacher_tokens_cpu(slice(i), tokens, *pool);
  }
  cross_entropy_loss(losses.data(), targets.data(), rows, {});
  DivergenceLosses call = {.tokens = tokens,
                           .columns = vocabulary,
                           .cap = GetParam().cap,
                           .losses = losses.data(),
                           .weight = 0.25,
                           .of_rows = of_rows.data(),
                           .factors = factors.data(),
                           .sum = &sum};
  divergence_losses_cpu(call, *pool);
  for (u32 i = 0; i < std::size(cuts); ++i) {
    const LossFactors all = {.scale = 3, .rows = factors.data()};
    cross_entropy_gradient_cpu(slice(i), all, *pool);
    add_teacher_gradients_cpu(slice(i), tokens, all, *pool);
  }

  const DeviceArray device_targets(targets.data(), rows * 4), device_losses(rows * sizeof(RowLoss)),
      given(distributions.data(), distributions.size() * 4), device_logits(rows * k * 4),
      device_rows(rows * 8), device_factors(rows * sizeof(RowFactors));
  DeviceArray device_sum(8);
  device_sum.set(1.0);
  tokens.targets = device_targets.as<i32>(), tokens.distributions = given.as<float>();
  tokens.logits = device_logits.as<float>();
  const auto of_device = [&](u32 i) {
    return slice(i, on_device[i]->values(), device_targets.as<i32>(), device_losses.as<RowLoss>());
  };
  for (u32 i = 0; i < std::size(cuts); ++i) {
    cross_entropy_slice_cuda(of_device(i), stream_);
    take_teacher_tokens_cuda(of_device(i), tokens, stream_);
  }
  cross_entropy_loss_cuda(device_losses.as<RowLoss>(), tokens.targets, rows, {}, stream_);
  call.tokens = tokens, call.losses = device_losses.as<RowLoss>(), call.of_rows = device_rows.as<double>();
  call.factors = device_factors.as<RowFactors>(), call.sum = device_sum.as<double>();
  divergence_losses_cuda(call, stream_);
  for (u32 i = 0; i < std::size(cuts); ++i) {
    const LossFactors all = {.scale = 3, .rows = device_factors.as<RowFactors>()};
    cross_entropy_gradient_cuda(of_device(i), all, stream_);
    add_teacher_gradients_cuda(of_device(i), tokens, all, stream_);
  }
  synchronize();
  EXPECT_NEAR(device_sum.value<double>(), sum, 1e-5 * sum);
  EXPECT_GT(sum, 1.5);
  const float relative = GetParam().precision == Precision::fp32 ? 1e-5f : 0x1p-7f;
  for (u32 i = 0; i < std::size(cuts); ++i) {
    const auto now = on_device[i]->now();
    for (u32 e = 0; e < now.size(); ++e)
      ASSERT_NEAR(now[e], on_host[i][e], 1e-6f + relative * std::abs(on_host[i][e])) << i << " " << e;
  }
}

TEST_P(CudaDistillation, TopTokensAreThoseOfTheCpu) {
  std::vector<TopToken> top(rows * k);
  on_host[1][3] = on_host[1][40] = 30;  // equal ones: the smaller token comes first
  const DeviceArray device_targets(targets.data(), rows * 4), device_losses(rows * sizeof(RowLoss)),
      device_top(rows * k * sizeof(TopToken)), out(rows * 2 * k * 4);
  for (u32 i = 0; i < std::size(cuts); ++i) {
    const DeviceValues logits(on_host[i], GetParam().precision);
    const LogitsSlice s = slice(i, logits.values(), device_targets.as<i32>(), device_losses.as<RowLoss>());
    cross_entropy_slice_cuda(s, stream_);
    select_top_cuda(s, device_top.as<TopToken>(), k, stream_);
    cross_entropy_slice_cpu(slice(i), *pool);
    select_top_cpu(slice(i), top.data(), k, *pool);
    synchronize();
  }
  cross_entropy_loss(losses.data(), targets.data(), rows, {});
  cross_entropy_loss_cuda(device_losses.as<RowLoss>(), device_targets.as<i32>(), rows, {}, stream_);
  top_distributions_cuda(device_losses.as<RowLoss>(), device_targets.as<i32>(), device_top.as<TopToken>(),
                         rows, k, out.as<float>(), stream_);
  synchronize();
  std::vector<float> wanted(rows * 2 * k);
  top_distributions(losses.data(), targets.data(), top.data(), rows, k, wanted.data());
  const auto got = out.values<float>();
  for (u32 i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4) << i;
  EXPECT_EQ(wanted[k], 8) << wanted[0];
  EXPECT_EQ(wanted[k + 1], 45);
  for (u32 i = 0; i < 2 * k; ++i) EXPECT_EQ(wanted[2 * 2 * k + i], 0);  // an ignored row
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaDistillation,
    testing::Values(Case{Precision::fp32, {.beta = 0}}, Case{Precision::fp32, {.beta = 1}, 2.5f},
                    Case{Precision::fp32, {.beta = 0.4, .remainder = Remainder::renormalized}},
                    Case{Precision::bf16, {.beta = 0.4}},
                    Case{Precision::fp16, {.beta = 1, .remainder = Remainder::renormalized}}),
    [](const auto& info) { return fmt::format("{}", info.index); });

}  // namespace tidepool::test::distillation_test
