// Losses of units on the device, against the CPU's: the same code, but for the device's own exponentials.
#include <fmt/format.h>

#include <cmath>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "objectives/objective.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::unit_losses_cuda_test {

// Units of one or two sequences of 1 to 60 places one behind the other, and padding behind them.
struct Units {
  std::vector<i32> targets, sequences;
  std::vector<float> values, references, old_logps;
  std::vector<RowLoss> losses;
  std::vector<LogitSums> logit_sums;

  explicit Units(const ObjectiveRule& rule) {
    const bool scores = rule.scores();
    const auto numbers = random_floats(4096, 11, 2.0f);
    for (u32 unit = 0; unit < 40; ++unit)
      for (const i32 sign : {1, -1}) {
        if (sign < 0 && rule.sequences < 2) continue;
        const i32 length = 1 + i32(unit * 7 + (sign > 0 ? 0 : 13)) % 60;
        for (i32 t = 0; t < length; ++t) {
          const u64 at = targets.size();
          const bool learned = scores ? t + 1 == length : t * 3 >= length - 1;
          targets.push_back(learned ? 0 : ignored_target);
          sequences.push_back(t == 0 ? sign * length : 0);
          values.push_back(
              t == 0 && sign > 0 ? float(unit % 3) * 0.5f - (rule.unit == LossUnit::pair ? 0 : 0.4f) : 0);
          references.push_back(numbers[at % 4096] - 2);
          const float lse = 3 + numbers[(at * 5 + 2) % 4096] / 8;
          losses.push_back({.maximum = lse - 1,
                            .sum = std::exp(1.0f),
                            .target = numbers[(at * 7 + 1) % 4096],
                            .lse = lse});
          logit_sums.push_back({numbers[(at * 11 + 3) % 4096], -std::abs(numbers[(at * 13 + 4) % 4096]),
                                1 + std::abs(numbers[(at * 17 + 5) % 4096])});
          old_logps.push_back(losses.back().target - losses.back().lse + numbers[(at * 3 + 5) % 4096] / 4);
        }
      }
    for (u32 i = 0; i < 37; ++i) {
      targets.push_back(padding_target), sequences.push_back(0), values.push_back(0), references.push_back(0);
      losses.push_back({}), old_logps.push_back(0), logit_sums.emplace_back();
    }
  }
};

class CudaUnitLosses : public CudaTest, public testing::WithParamInterface<ObjectiveConfig> {};

TEST_P(CudaUnitLosses, AreTheCpus) {
  const ObjectiveRule rule = objective_rule(GetParam());
  const Units units(rule);
  const u32 rows = u32(units.targets.size());
  UnitLosses call{.rule = rule,
                  .rows = rows,
                  .targets = units.targets.data(),
                  .sequences = units.sequences.data(),
                  .values = rule.has_values() && !rule.prompt_nll ? units.values.data() : nullptr,
                  .references = rule.reference ? units.references.data() : nullptr,
                  .old_logps = units.old_logps.data(),
                  .losses = units.losses.data(),
                  .logit_sums = rule.sums_logits() ? units.logit_sums.data() : nullptr,
                  .columns = 40,
                  .weight = 0.025};
  if (rule.prompt_nll) call.rule.prompt_nll = false;  // needs learned prompts: tests/golden has them
  std::vector<SequenceSums> of_sequences(rows);
  std::vector<Sums> of_units(rows);
  std::vector<RowFactors> factors(rows);
  Sums sums;
  call.of_sequences = of_sequences.data(), call.of_units = of_units.data(), call.factors = factors.data();
  call.sums = &sums;
  unit_losses_cpu(call);

  const DeviceArray targets(units.targets.data(), rows * 4), sequences(units.sequences.data(), rows * 4),
      values(units.values.data(), rows * 4), references(units.references.data(), rows * 4),
      old_logps(units.old_logps.data(), rows * 4),
      logit_sums(units.logit_sums.data(), rows * sizeof(LogitSums)),
      losses(units.losses.data(), rows * sizeof(RowLoss)), scratch(rows * sizeof(SequenceSums)),
      device_units(rows * sizeof(Sums)), device_factors(rows * sizeof(RowFactors)), device_sums(sizeof(Sums));
  const Sums none;
  device_sums.write(&none, sizeof none);
  call.targets = targets.as<i32>(), call.sequences = sequences.as<i32>();
  if (call.values != nullptr) call.values = values.as<float>();
  if (call.references != nullptr) call.references = references.as<float>();
  call.old_logps = old_logps.as<float>();
  if (call.logit_sums != nullptr) call.logit_sums = logit_sums.as<LogitSums>();
  call.losses = losses.as<RowLoss>(), call.of_sequences = scratch.as<SequenceSums>();
  call.of_units = device_units.as<Sums>(), call.factors = device_factors.as<RowFactors>();
  call.sums = device_sums.as<Sums>();
  unit_losses_cuda(call, stream_);
  synchronize();
  const Sums got = device_sums.value<Sums>();
  for (u32 i = 0; i < sum_count; ++i)
    EXPECT_NEAR(got.begin()[i], sums.begin()[i], 1e-12 * std::max(1.0, std::abs(sums.begin()[i]))) << i;
  const auto of_rows = device_factors.values<RowFactors>();
  for (u32 row = 0; row < rows; ++row) {
    EXPECT_NEAR(of_rows[row].softmax, factors[row].softmax, 1e-6 * std::abs(factors[row].softmax)) << row;
    EXPECT_NEAR(of_rows[row].target, factors[row].target, 1e-6 * std::abs(factors[row].target)) << row;
  }
  EXPECT_NE(sums[Sum::loss], 0);
}

INSTANTIATE_TEST_SUITE_P(All, CudaUnitLosses, testing::ValuesIn([] {
                           std::vector<ObjectiveConfig> out;
                           for (u32 type = 0; type < objective_count; ++type) {
                             ObjectiveConfig c = {.type = static_cast<ObjectiveType>(type), .beta = 0.3};
                             c.logit_metrics = type % 2 == 0;
                             if (objective_rule(c).units()) out.push_back(c);
                           }
                           out.push_back({.type = ObjectiveType::grpo,
                                          .beta = 0.1,
                                          .loss_type = {"cispo"},
                                          .importance_sampling_level = ImportanceLevel::sequence});
                           out.push_back({.type = ObjectiveType::grpo, .beta = 0.1, .loss_type = {"sapo"}});
                           ObjectiveConfig pairs = {.type = ObjectiveType::dpo, .beta = 0.3};
                           pairs.ld_alpha = 0.4, pairs.use_weighting = true;
                           out.push_back(pairs);
                           pairs.f_divergence_type = FDivergence::js_divergence;
                           out.push_back(pairs);
                           pairs.f_divergence_type = FDivergence::alpha_divergence;
                           out.push_back(pairs);
                           return out;
                         }()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name(info.param.type), info.index);
                         });

}  // namespace tidepool::test::unit_losses_cuda_test
