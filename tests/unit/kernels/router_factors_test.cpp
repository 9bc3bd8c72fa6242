// Factors on the weights of an expert's tokens, and their gradients.
#include "kernels/router/router.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::router_factors_test {

// A factor multiplies the weights of its expert; its gradient, choice by choice, is weight times gradient.
TEST(RouterFactors, MultiplyWeights) {
  constexpr u32 rows = 21, experts = 8, chosen = 3, choices = rows * chosen;
  for (const RouterScores scores : {RouterScores::softmax, RouterScores::chosen_softmax}) {
    const RouterRule rule = {
        .experts = experts, .chosen = chosen, .scores = scores, .normalise = true, .scale = 1.5f};
    const auto logits = random_floats(rows * experts, 1, 2), factors = random_floats(experts, 2),
               dweights = random_floats(choices, 3);
    std::vector<i32> routed(choices), again(choices), targets(rows, 5);
    targets[7] = padding_target;
    std::vector<float> plain(choices), weights(choices), want(choices), before(choices);
    Router router = {.rule = rule,
                     .rows = rows,
                     .logits = logits.data(),
                     .experts = routed.data(),
                     .weights = plain.data()};
    router_cpu(router, shared_pool(2));
    router.factors = factors.data(), router.experts = again.data(), router.weights = weights.data();
    router_cpu(router, shared_pool(2));
    EXPECT_EQ(again, routed);
    for (u32 i = 0; i < choices; ++i) {
      const float factor = factors[static_cast<u32>(routed[i])];
      want[i] = plain[i] * factor, before[i] = dweights[i] * factor;
    }
    EXPECT_EQ(weights, want);
    RouterBackward op = {.rule = rule,
                         .rows = rows,
                         .logits = logits.data(),
                         .experts = routed.data(),
                         .dweights = before.data(),
                         .targets = targets.data()};
    std::vector<float> dlogits(rows * experts), same(rows * experts), dfactors(choices);
    op.dlogits = same.data();
    router_backward_cpu(op, shared_pool(2));
    op.dweights = dweights.data(), op.factors = factors.data();
    op.dlogits = dlogits.data(), op.dfactors = dfactors.data();
    router_backward_cpu(op, shared_pool(2));
    EXPECT_EQ(dlogits, same);
    for (u32 i = 0; i < choices; ++i)
      EXPECT_NEAR(dfactors[i], i / chosen == 7 ? 0 : plain[i] * dweights[i], 1e-6) << i;
  }
}

}  // namespace tidepool::test::router_factors_test
