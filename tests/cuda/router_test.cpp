// Tests the device's router against the CPU's: choices and counts are the same, numbers agree.
#include <cmath>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/router/router_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::cuda_router_test {

struct RouterCase {
  RouterRule rule;
  u32 rows;
  bool corrected = false;
};
constexpr RouterCase router_cases[] = {
    {{.experts = 1, .chosen = 1, .normalise = true}, 3},
    {{.experts = 8, .chosen = 2, .normalise = true}, 37},
    {{.experts = 7, .chosen = 7, .normalise = true}, 5},
    {{.experts = 130, .chosen = 8, .normalise = false, .scale = 0.5f}, 1100},
    {{.experts = 33, .chosen = 1, .normalise = false}, 70},
    {{.experts = 40, .chosen = 40, .normalise = true}, 20},
    {{.experts = 1000, .chosen = 3}, 40},
    {{.experts = router_experts_max, .chosen = 2, .normalise = true}, 7},
    {{.experts = 32, .chosen = 4, .scores = RouterScores::chosen_softmax}, 65},
    {{.experts = 5, .chosen = 5, .scores = RouterScores::chosen_softmax, .scale = 2}, 1},
    {{.experts = 16,
      .chosen = 3,
      .scores = RouterScores::sigmoid,
      .normalise = true,
      .scale = 2.5f,
      .groups = 4,
      .chosen_groups = 2},
     200,
     true},
    {{.experts = 12,
      .chosen = 4,
      .scores = RouterScores::sigmoid,
      .normalise = false,
      .groups = 12,
      .chosen_groups = 5},
     33,
     true},
    {{.experts = 9,
      .chosen = 9,
      .scores = RouterScores::sigmoid,
      .normalise = true,
      .groups = 3,
      .chosen_groups = 3},
     17},
};

struct Routed {
  std::vector<i32> experts, counts;
  std::vector<float> weights;
  std::vector<double> sums;  // probabilities, entropy, z
};

class CudaRouter : public CudaTest {
 protected:
  CorePool& pool_ = shared_pool(2);

  // targets: empty, or by row.
  Routed on_cpu(const RouterRule& rule, u32 rows, const std::vector<float>& logits,
                const std::vector<float>& correction, const std::vector<i32>& targets = {}) {
    Routed out = {std::vector<i32>(rows * rule.chosen), std::vector<i32>(rule.experts),
                  std::vector<float>(rows * rule.chosen), std::vector<double>(rule.experts + 2)};
    std::vector<double> partials(router_partials(rule.experts));
    router_cpu({.rule = rule,
                .rows = rows,
                .logits = logits.data(),
                .correction = correction.empty() ? nullptr : correction.data(),
                .targets = targets.empty() ? nullptr : targets.data(),
                .experts = out.experts.data(),
                .weights = out.weights.data(),
                .sums = {.counts = out.counts.data(),
                         .probabilities = out.sums.data(),
                         .entropy = &out.sums[rule.experts],
                         .z = &out.sums[rule.experts + 1]},
                .partials = partials.data()},
               pool_);
    return out;
  }
  Routed on_device(const RouterRule& rule, u32 rows, const std::vector<float>& logits,
                   const std::vector<float>& correction, bool with_sums = true,
                   const std::vector<i32>& targets = {}, u32 times = 1) {
    const DeviceArray there(logits.data(), logits.size() * 4), experts(rows * rule.chosen * 4),
        weights(rows * rule.chosen * 4), counts(rule.experts * 4), sums((rule.experts + 2) * 8),
        partials(router_partials(rule.experts) * 8);
    const DeviceArray corrections(correction.data(), correction.size() * 4),
        targets_there(targets.data(), targets.size() * 4);
    Router op = {.rule = rule,
                 .rows = rows,
                 .logits = there.as<float>(),
                 .correction = correction.empty() ? nullptr : corrections.as<float>(),
                 .targets = targets.empty() ? nullptr : targets_there.as<i32>(),
                 .experts = experts.as<i32>(),
                 .weights = weights.as<float>()};
    if (with_sums) {
      op.sums = {.counts = counts.as<i32>(),
                 .probabilities = sums.as<double>(),
                 .entropy = sums.as<double>() + rule.experts,
                 .z = sums.as<double>() + rule.experts + 1};
      op.partials = partials.as<double>();
    }
    for (u32 time = 0; time < times; ++time) {
      op.add_sums = time > 0;
      router_cuda(op, stream_);
    }
    synchronize();
    Routed out = {experts.values<i32>(), {}, weights.values<float>(), {}};
    if (with_sums) out.counts = counts.values<i32>(), out.sums = sums.values<double>();
    return out;
  }
  std::vector<float> backward_on_device(RouterBackward op, const Routed& routed,
                                        const std::vector<float>& logits, const std::vector<i32>& counts,
                                        const std::vector<float>& dweights);
};

std::vector<float> logits_of(const RouterCase& c) {
  return random_floats(u64{c.rows} * c.rule.experts, 1, 2);
}
std::vector<float> correction_of(const RouterCase& c) {
  return c.corrected ? random_floats(c.rule.experts, 2, 0.3f) : std::vector<float>();
}

TEST_F(CudaRouter, AgreesWithTheCpu) {
  for (const RouterCase& c : router_cases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.rule.experts);
    const auto logits = logits_of(c), correction = correction_of(c);
    const Routed want = on_cpu(c.rule, c.rows, logits, correction);
    const Routed got = on_device(c.rule, c.rows, logits, correction);
    EXPECT_EQ(got.experts, want.experts);
    EXPECT_EQ(got.counts, want.counts);
    EXPECT_LE(relative_error(got.weights, want.weights), 1e-6);
    for (u64 i = 0; i < want.sums.size(); ++i)
      EXPECT_NEAR(got.sums[i], want.sums[i], 2e-6 * (1 + std::abs(want.sums[i])));
    const Routed again = on_device(c.rule, c.rows, logits, correction);
    EXPECT_TRUE(same_bits(again.sums, got.sums));
    const Routed without = on_device(c.rule, c.rows, logits, correction, false);
    EXPECT_EQ(without.experts, want.experts);
    EXPECT_TRUE(same_bits(without.weights, got.weights));
  }
}

// Every third row is padding, and so is the end.
std::vector<i32> padded_targets(u32 rows) {
  std::vector<i32> targets(rows);
  for (u32 r = 0; r < rows; ++r)
    targets[r] = r % 3 == 1 || r > 2 * rows / 3 ? padding_target : r % 3 == 0 ? ignored_target : 5;
  return targets;
}

TEST_F(CudaRouter, SumsLeaveOutPaddingAsTheCpusDo) {
  for (const RouterCase& c : router_cases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.rule.experts);
    const auto logits = logits_of(c), correction = correction_of(c);
    const auto targets = padded_targets(c.rows);
    const Routed want = on_cpu(c.rule, c.rows, logits, correction, targets);
    const Routed got = on_device(c.rule, c.rows, logits, correction, true, targets);
    EXPECT_EQ(got.experts, want.experts);
    EXPECT_EQ(got.counts, want.counts);
    for (u64 i = 0; i < want.sums.size(); ++i)
      EXPECT_NEAR(got.sums[i], want.sums[i], 2e-6 * (1 + std::abs(want.sums[i])));
    const Routed none =
        on_device(c.rule, c.rows, logits, correction, true, std::vector<i32>(c.rows, padding_target));
    EXPECT_EQ(none.counts, std::vector<i32>(c.rule.experts, 0));
    EXPECT_EQ(none.sums, std::vector<double>(c.rule.experts + 2, 0.0));
  }
}

TEST_F(CudaRouter, SumsGoOnFromThoseOfEarlierRows) {
  const RouterCase& c = router_cases[0];
  const auto logits = logits_of(c), correction = correction_of(c);
  const Routed once = on_device(c.rule, c.rows, logits, correction),
               twice = on_device(c.rule, c.rows, logits, correction, true, {}, 2);
  for (u32 e = 0; e < c.rule.experts; ++e) EXPECT_EQ(twice.counts[e], 2 * once.counts[e]);
  for (u64 i = 0; i < once.sums.size(); ++i)
    EXPECT_NEAR(twice.sums[i], 2 * once.sums[i], 1e-12 * (1 + std::abs(once.sums[i])));
}

TEST_F(CudaRouter, FactorsAreTheCpus) {
  constexpr u32 rows = 70, experts = 33, chosen = 4, choices = rows * chosen;
  for (const RouterScores scores : {RouterScores::softmax, RouterScores::chosen_softmax}) {
    const RouterRule rule = {.experts = experts, .chosen = chosen, .scores = scores, .normalise = true};
    const auto logits = random_floats(rows * experts, 1, 2), factors = random_floats(experts, 2),
               dweights = random_floats(choices, 3);
    const auto targets = padded_targets(rows);
    std::vector<i32> routed(choices);
    std::vector<float> weights(choices), dlogits(rows * experts), dfactors(choices);
    Router op = {.rule = rule,
                 .rows = rows,
                 .logits = logits.data(),
                 .factors = factors.data(),
                 .experts = routed.data(),
                 .weights = weights.data()};
    RouterBackward back = {.rule = rule,
                           .rows = rows,
                           .logits = logits.data(),
                           .experts = routed.data(),
                           .dweights = dweights.data(),
                           .factors = factors.data(),
                           .targets = targets.data(),
                           .dlogits = dlogits.data(),
                           .dfactors = dfactors.data()};
    router_cpu(op, pool_);
    router_backward_cpu(back, pool_);
    const DeviceArray there(logits.data(), logits.size() * 4), of_factors(factors.data(), experts * 4),
        chosen_there(choices * 4), weights_there(choices * 4), grads(dweights.data(), choices * 4),
        targets_there(targets.data(), rows * 4), dlogits_there(rows * experts * 4),
        dfactors_there(choices * 4);
    op.logits = there.as<float>(), op.factors = of_factors.as<float>();
    op.experts = chosen_there.as<i32>(), op.weights = weights_there.as<float>();
    router_cuda(op, stream_);
    back.logits = there.as<float>(), back.experts = chosen_there.as<i32>();
    back.dweights = grads.as<float>(), back.factors = of_factors.as<float>();
    back.targets = targets_there.as<i32>();
    back.dlogits = dlogits_there.as<float>(), back.dfactors = dfactors_there.as<float>();
    router_backward_cuda(back, stream_);
    synchronize();
    EXPECT_EQ(chosen_there.values<i32>(), routed);
    EXPECT_LE(relative_error(weights_there.values<float>(), weights), 1e-6);
    EXPECT_LE(relative_error(dlogits_there.values<float>(), dlogits), 1e-5);
    EXPECT_LE(relative_error(dfactors_there.values<float>(), dfactors), 1e-6);
  }
}

TEST_F(CudaRouter, GivesTiesToTheLowerIndex) {
  const std::vector<float> logits = {1, 3, 3, 0.0f, 3, -0.0f};
  for (RouterScores scores : {RouterScores::softmax, RouterScores::chosen_softmax, RouterScores::sigmoid}) {
    const Routed got = on_device({.experts = 6, .chosen = 5, .scores = scores}, 1, logits, {});
    EXPECT_EQ(got.experts, (std::vector<i32>{1, 2, 4, 0, 3}));
  }
  const RouterRule groups = {
      .experts = 8, .chosen = 3, .scores = RouterScores::sigmoid, .groups = 4, .chosen_groups = 2};
  EXPECT_EQ(on_device(groups, 1, std::vector<float>(8, 1.0f), {}).experts, (std::vector<i32>{0, 1, 2}));
  const RouterRule two = {
      .experts = 6, .chosen = 2, .scores = RouterScores::sigmoid, .groups = 3, .chosen_groups = 2};
  EXPECT_EQ(on_device(two, 1, {1, 0, -9, -9, 1, 0.5f}, {}).experts, (std::vector<i32>{0, 4}));
}

TEST_F(CudaRouter, TreatsNanAndInfinityAsTheCpuDoes) {
  const RouterRule rules[] = {{.experts = 6, .chosen = 3},
                              {.experts = 6, .chosen = 3, .normalise = true},
                              {.experts = 6, .chosen = 3, .scores = RouterScores::chosen_softmax},
                              {.experts = 6, .chosen = 3, .scores = RouterScores::sigmoid},
                              {.experts = 6,
                               .chosen = 3,
                               .scores = RouterScores::sigmoid,
                               .normalise = true,
                               .groups = 3,
                               .chosen_groups = 2}};
  const std::vector<float> logits = {1,   NAN, 5,         4, -NAN,     2, NAN,      NAN, NAN, NAN,
                                     NAN, NAN, 1,         2, 3,        4, 5,        6,   0,   -INFINITY,
                                     0,   1,   -INFINITY, 2, INFINITY, 1, INFINITY, NAN, -1,  -2};
  for (const RouterRule& rule : rules) {
    const Routed want = on_cpu(rule, 5, logits, {}), got = on_device(rule, 5, logits, {});
    EXPECT_EQ(got.experts, want.experts);
    EXPECT_EQ(got.counts, want.counts);
    for (u64 i = 0; i < want.weights.size(); ++i) {
      EXPECT_EQ(std::isnan(got.weights[i]), std::isnan(want.weights[i])) << i;
      if (!std::isnan(want.weights[i])) {
        EXPECT_NEAR(got.weights[i], want.weights[i], 1e-6);
      }
    }
    EXPECT_TRUE(std::isnan(got.sums[7]));
    const Routed last = on_device(rule, 1, {0, -INFINITY, 0, 1, -INFINITY, 2}, {});
    EXPECT_FALSE(std::isnan(last.sums[6])) << "0 log 0 = 0";
  }
}

TEST_F(CudaRouter, SumsOfNoRowsAreZero) {
  const Routed got = on_device({.experts = 3, .chosen = 1}, 0, {}, {});
  EXPECT_EQ(got.counts, std::vector<i32>(3, 0));
  EXPECT_EQ(got.sums, std::vector<double>(5, 0.0));
}

std::vector<float> CudaRouter::backward_on_device(RouterBackward op, const Routed& routed,
                                                  const std::vector<float>& logits,
                                                  const std::vector<i32>& counts,
                                                  const std::vector<float>& dweights) {
  const float scale = 4;
  const DeviceArray there(logits.data(), logits.size() * 4),
      experts(routed.experts.data(), routed.experts.size() * 4), scale_there(&scale, 4),
      counts_there(counts.data(), counts.size() * 4), dweights_there(dweights.data(), dweights.size() * 4),
      targets_there(op.targets, op.targets != nullptr ? u64{op.rows} * 4 : 0);
  op.logits = op.dlogits = there.as<float>();  // in place
  op.experts = experts.as<i32>(), op.loss_scale = scale_there.as<float>();
  if (op.counts != nullptr) op.counts = counts_there.as<i32>();
  if (op.dweights != nullptr) op.dweights = dweights_there.as<float>();
  if (op.targets != nullptr) op.targets = targets_there.as<i32>();
  router_backward_cuda(op, stream_);
  synchronize();
  return there.values<float>();
}

TEST_F(CudaRouter, BackwardAgreesWithTheCpuWithEachTerm) {
  constexpr u32 layers = 3;
  const float loss_scale = 4;
  for (const RouterCase& c : router_cases) {
    const auto logits = logits_of(c);
    const Routed routed = on_cpu(c.rule, c.rows, logits, correction_of(c));
    const auto dweights = random_floats(u64{c.rows} * c.rule.chosen, 3);
    std::vector<i32> counts(u64{layers} * c.rule.experts);
    for (u64 i = 0; i < counts.size(); ++i) counts[i] = static_cast<i32>(i * 7 % 11);
    const auto targets = padded_targets(c.rows);
    for (u32 terms = 0; terms < 16; ++terms) {
      SCOPED_TRACE(testing::Message() << c.rows << " x " << c.rule.experts << ", " << terms);
      std::vector<float> want(logits.size());
      const RouterBackward op = {
          .rule = c.rule,
          .rows = c.rows,
          .logits = logits.data(),
          .experts = routed.experts.data(),
          .dweights = terms & 1 ? dweights.data() : nullptr,
          .targets = terms & 8 ? targets.data() : nullptr,
          .counts = terms & 6 ? counts.data() : nullptr,
          .layers = layers,
          .losses = {.balance = terms & 2 ? 50.0 : 0, .z = terms & 4 ? 2.0 : 0, .micro_batches = 2},
          .loss_scale = &loss_scale,
          .dlogits = want.data()};
      router_backward_cpu(op, pool_);
      const auto got = backward_on_device(op, routed, logits, counts, dweights);
      double most = 0, error = 0;
      for (u64 i = 0; i < want.size(); ++i) {
        most = std::max(most, std::abs(double(want[i])));
        error = std::max(error, std::abs(double(got[i]) - double(want[i])));
      }
      EXPECT_LE(error, 2e-6 * most + 1e-7);
      for (u64 i = 0; terms & 8 && i < got.size(); ++i) {
        const bool padding = targets[i / c.rule.experts] == padding_target;
        EXPECT_TRUE(!padding || got[i] == 0) << i;
      }
    }
  }
}

TEST_F(CudaRouter, TotalsHaveTheCpusBits) {
  const struct {
    u32 layers, experts;
    i32 counted = 1;  // 0: padding alone
  } cases[] = {{1, 1}, {3, 7}, {5, 300}, {3, 7, 0}};
  for (const auto& [layers, experts, counted] : cases) {
    const u64 n = u64{layers} * experts;
    const auto random = random_floats(n + 2 * layers, 1);
    const std::vector<double> numbers(random.begin(), random.end());  // probabilities, z, entropy
    std::vector<i32> counts(n);
    for (u64 i = 0; i < n; ++i) counts[i] = static_cast<i32>(i * 37 % 101) * counted;
    std::vector<i64> tokens(n, i64{1} << 40);
    std::vector<double> losses = {0.5, 0.25, 2};
    const DeviceArray numbers_there(numbers.data(), numbers.size() * 8), counts_there(counts.data(), n * 4),
        tokens_there(tokens.data(), n * 8), losses_there(losses.data(), 24);
    const auto sums_of = [&](i32* of_counts, double* of_numbers) {
      return RouterSums{.counts = of_counts,
                        .probabilities = of_numbers,
                        .entropy = of_numbers + n + layers,
                        .z = of_numbers + n};
    };
    std::vector<double> host_numbers = numbers;
    RouterTotals op = {.chosen = 3,
                       .layers = layers,
                       .experts = experts,
                       .sums = sums_of(counts.data(), host_numbers.data()),
                       .losses = reinterpret_cast<RouterLosses*>(losses.data()),
                       .tokens = tokens.data()};
    router_totals_cpu(op);
    op.sums = sums_of(counts_there.as<i32>(), numbers_there.as<double>());
    op.losses = losses_there.as<RouterLosses>(), op.tokens = tokens_there.as<i64>();
    router_totals_cuda(op, stream_);
    synchronize();
    EXPECT_EQ(tokens_there.values<i64>(), tokens);
    EXPECT_TRUE(same_bits(losses_there.values<double>(), losses));
    for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));
  }
}

TEST(CudaRouterLaunch, FitsEveryDevice) {
  using namespace cuda;
  for (const u32 rows : {1u, 1024u, 1u << 31, ~0u}) {
    for (const u32 experts : {1u, 128u, 513u, router_experts_max}) {
      for (const bool sums : {false, true}) {
        const LaunchShape shape = router_launch(rows, experts, sums);
        EXPECT_TRUE(fits_every_device(shape));
        EXPECT_LE(router_parts(rows).count, router_parts_max);
        EXPECT_GE(u64{router_parts(rows).count} * router_parts(rows).rows, rows);
        EXPECT_TRUE(fits_every_device(router_backward_launch(rows, experts)));
      }
      EXPECT_TRUE(fits_every_device(router_sums_launch(experts)));
      EXPECT_TRUE(fits_every_device(router_totals_launch(experts)));
    }
  }
}

}  // namespace tidepool::test::cuda_router_test
