// Compares routers with plain double code: choices, weights, sums, and gradients by finite differences.
#include "kernels/router/router.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/router/router_totals.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::router_test {

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

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<double> softmax(const std::vector<double>& x) {
  std::vector<double> p(x.size());
  const double maximum = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (u64 i = 0; i < x.size(); ++i) sum += p[i] = std::exp(x[i] - maximum);
  for (double& v : p) v /= sum;
  return p;
}
double logsumexp(const std::vector<double>& x) {
  const double maximum = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double v : x) sum += std::exp(v - maximum);
  return maximum + std::log(sum);
}

// The indices of the largest values, largest first, ties to the lower index.
std::vector<u32> largest(const std::vector<double>& x, u32 count) {
  std::vector<u32> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return x[a] > x[b]; });
  order.resize(count);
  return order;
}

std::vector<u32> choice(const RouterRule& rule, const std::vector<double>& logits,
                        const std::vector<float>& correction) {
  if (rule.scores != RouterScores::sigmoid) return largest(logits, rule.chosen);
  std::vector<double> scores(rule.experts), group_scores(rule.groups);
  for (u32 e = 0; e < rule.experts; ++e) {
    scores[e] = sigmoid(logits[e]) + (correction.empty() ? 0 : correction[e]);
  }
  const u32 size = rule.experts / rule.groups;
  for (u32 g = 0; g < rule.groups; ++g) {
    const std::vector<double> group(&scores[g * size], &scores[g * size] + size);
    for (u32 i : largest(group, std::min(2u, size))) group_scores[g] += group[i];
  }
  const auto kept = largest(group_scores, rule.chosen_groups);
  for (u32 e = 0; e < rule.experts; ++e) {
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) scores[e] = -INFINITY;
  }
  return largest(scores, rule.chosen);
}

std::vector<double> weights_of(const RouterRule& rule, const std::vector<double>& logits,
                               const std::vector<u32>& chosen) {
  std::vector<double> w;
  for (u32 e : chosen) w.push_back(logits[e]);
  if (rule.scores == RouterScores::chosen_softmax) {
    w = softmax(w);
  } else {
    const auto p = softmax(logits);
    for (u64 j = 0; j < w.size(); ++j) {
      w[j] = rule.scores == RouterScores::sigmoid ? sigmoid(w[j]) : p[chosen[j]];
    }
    const double sum = std::accumulate(w.begin(), w.end(), 0.0);
    if (rule.normalise) {
      for (double& v : w) v /= sum;
    }
  }
  for (double& v : w) v *= rule.scale;
  return w;
}

class RouterTest : public testing::TestWithParam<RouterCase> {
 protected:
  const RouterCase c = GetParam();
  const RouterRule& rule = c.rule;
  const u64 choices = u64{c.rows} * rule.chosen;
  std::vector<float> logits = random_floats(u64{c.rows} * rule.experts, 1, 2.0f);
  std::vector<float> correction = c.corrected ? random_floats(rule.experts, 2, 0.3f) : std::vector<float>();

  std::vector<double> row(u64 r) const {
    return {logits.begin() + static_cast<i64>(r * rule.experts),
            logits.begin() + static_cast<i64>((r + 1) * rule.experts)};
  }
};

struct Routed {
  std::vector<i32> experts, counts;
  std::vector<float> weights;
  std::vector<double> sums;  // probabilities, entropy, z
};

// targets: empty, or by row. before: of earlier rows, to whose sums these are added; or null.
Routed route(const RouterRule& rule, u32 rows, const std::vector<float>& logits,
             const std::vector<float>& correction, u32 workers, const std::vector<i32>& targets = {},
             const Routed* before = nullptr) {
  Routed out = {.experts = std::vector<i32>(u64{rows} * rule.chosen, -1),
                .counts = std::vector<i32>(rule.experts, -1),
                .weights = std::vector<float>(u64{rows} * rule.chosen, NAN),
                .sums = std::vector<double>(rule.experts + 2, NAN)};
  if (before != nullptr) out.counts = before->counts, out.sums = before->sums;
  std::vector<double> partials(router_partials(rule.experts), NAN);
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
              .add_sums = before != nullptr,
              .partials = partials.data()},
             shared_pool(workers));
  return out;
}

TEST_P(RouterTest, MatchesDoubleOnAnyThreads) {
  std::vector<i32> experts, counts(rule.experts, 0);
  std::vector<double> weights, sums(rule.experts + 2, 0.0);
  for (u64 r = 0; r < c.rows; ++r) {
    const auto l = row(r), p = softmax(l);
    const auto chosen = choice(rule, l, correction);
    for (u32 e : chosen) experts.push_back(static_cast<i32>(e)), ++counts[e];
    for (double w : weights_of(rule, l, chosen)) weights.push_back(w);
    for (u32 e = 0; e < rule.experts; ++e) {
      sums[e] += p[e];
      sums[rule.experts] -= p[e] * std::log(p[e]);
    }
    sums[rule.experts + 1] += logsumexp(l) * logsumexp(l);
  }
  Routed first;
  for (u32 workers : {1u, 2u, 3u}) {
    const Routed got = route(rule, c.rows, logits, correction, workers);
    EXPECT_EQ(got.experts, experts);
    EXPECT_EQ(got.counts, counts);
    EXPECT_LE(relative_error(got.weights, weights), 1e-6);
    for (u64 i = 0; i < sums.size(); ++i) EXPECT_NEAR(got.sums[i], sums[i], 2e-6 * (1 + std::abs(sums[i])));
    if (workers == 1) first = got;
    EXPECT_TRUE(same_bits(got.weights, first.weights));
    EXPECT_TRUE(same_bits(got.sums, first.sums));
  }
}

TEST_P(RouterTest, NeedsNoSums) {
  const Routed with = route(rule, c.rows, logits, correction, 2);
  std::vector<i32> experts(choices, -1);
  std::vector<float> weights(choices, NAN);
  router_cpu({.rule = rule,
              .rows = c.rows,
              .logits = logits.data(),
              .correction = correction.empty() ? nullptr : correction.data(),
              .experts = experts.data(),
              .weights = weights.data()},
             shared_pool(2));
  EXPECT_EQ(experts, with.experts);
  EXPECT_TRUE(same_bits(weights, with.weights));
}

// Central differences of loss(row's logits) in double.
std::vector<double> differences(std::vector<double> l,
                                const std::function<double(const std::vector<double>&)>& loss) {
  constexpr double h = 1e-5;
  std::vector<double> d(l.size());
  for (u64 i = 0; i < l.size(); ++i) {
    const double x = l[i];
    l[i] = x + h;
    const double above = loss(l);
    l[i] = x - h;
    d[i] = (above - loss(l)) / (2 * h);
    l[i] = x;
  }
  return d;
}

double norm(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}
// Norm of the difference: gradients may be 0, as with k = E = 1.
double difference(const std::vector<float>& got, std::vector<double> want) {
  for (u64 i = 0; i < want.size(); ++i) want[i] -= double(got[i]);
  return norm(want);
}

// All loss terms of a backward, and which of them are on.
struct LossTerms {
  static constexpr u32 layers = 3;
  static constexpr double balance = 50, z = 2;
  static constexpr float loss_scale = 4;
  std::vector<float> dweights;
  std::vector<i32> counts;
  std::vector<i32> targets;  // empty, or by row
  bool with_weights = false, with_balance = false, with_z = false;

  // A row's loss; `dw`: the row's dweights.
  double operator()(const RouterRule& rule, const std::vector<double>& l, const std::vector<u32>& chosen,
                    const float* dw) const {
    double sum = 0;
    const auto w = weights_of(rule, l, chosen), p = softmax(l);
    for (u32 j = 0; with_weights && j < rule.chosen; ++j) sum += w[j] * double(dw[j]);
    const double choices = std::accumulate(counts.begin(), counts.end(), 0.0), n = choices / rule.chosen;
    for (u32 i = 0; with_balance && i < counts.size() && n > 0; ++i) {
      sum += double(loss_scale) * balance / 2 * rule.experts / (n * n) * counts[i] * p[i % rule.experts];
    }
    return sum + (with_z && n > 0 ? double(loss_scale) * z / 2 / n * logsumexp(l) * logsumexp(l) : 0);
  }
};

// Gradients of the logits, in place.
std::vector<float> backward(const RouterCase& c, const std::vector<float>& logits, const Routed& forward,
                            const LossTerms& loss, u32 workers) {
  std::vector<float> dlogits = logits;
  const float loss_scale = LossTerms::loss_scale;
  router_backward_cpu({.rule = c.rule,
                       .rows = c.rows,
                       .logits = dlogits.data(),
                       .experts = forward.experts.data(),
                       .dweights = loss.with_weights ? loss.dweights.data() : nullptr,
                       .targets = loss.targets.empty() ? nullptr : loss.targets.data(),
                       .counts = loss.with_balance || loss.with_z ? loss.counts.data() : nullptr,
                       .layers = LossTerms::layers,
                       .losses = {.balance = loss.with_balance ? LossTerms::balance : 0,
                                  .z = loss.with_z ? LossTerms::z : 0,
                                  .micro_batches = 2},
                       .loss_scale = &loss_scale,
                       .dlogits = dlogits.data()},
                      shared_pool(workers));
  return dlogits;
}

TEST_P(RouterTest, BackwardMatchesDifferencesWithEachTerm) {
  const Routed forward = route(rule, c.rows, logits, correction, 2);
  LossTerms loss = {.dweights = random_floats(choices, 3),
                    .counts = std::vector<i32>(u64{LossTerms::layers} * rule.experts)};
  for (u64 i = 0; i < loss.counts.size(); ++i) loss.counts[i] = static_cast<i32>(i * 7 % 11);
  const u64 step = c.rows > 300 ? 97 : 1;  // differences take long
  for (u32 terms = 1; terms < 8; ++terms) {
    loss.with_weights = terms & 1, loss.with_balance = terms & 2, loss.with_z = terms & 4;
    std::vector<double> want;
    for (u64 r = 0; r < c.rows; r += step) {
      const i32* first = &forward.experts[r * rule.chosen];
      const std::vector<u32> chosen(first, first + rule.chosen);
      const auto d = differences(row(r), [&](const std::vector<double>& l) {
        return loss(rule, l, chosen, &loss.dweights[r * rule.chosen]);
      });
      want.insert(want.end(), d.begin(), d.end());
    }
    std::vector<float> first;
    for (u32 workers : {1u, 2u, 3u}) {
      const std::vector<float> dlogits = backward(c, logits, forward, loss, workers);
      std::vector<float> checked;
      for (u64 r = 0; r < c.rows; r += step) {
        const float* row = &dlogits[r * rule.experts];
        checked.insert(checked.end(), row, row + rule.experts);
      }
      EXPECT_LE(difference(checked, want), 2e-6 * norm(want) + 1e-6 * std::sqrt(double(want.size())))
          << terms;
      if (workers == 1) first = dlogits;
      EXPECT_TRUE(same_bits(dlogits, first));
    }
  }
}

// Every third row is padding, and so is the end.
std::vector<i32> padded_targets(u32 rows) {
  std::vector<i32> targets(rows);
  for (u32 r = 0; r < rows; ++r)
    targets[r] = r % 3 == 1 || r > 2 * rows / 3 ? padding_target : r % 3 == 0 ? ignored_target : 5;
  return targets;
}

TEST_P(RouterTest, SumsLeaveOutPaddingAndNotTokensWithoutLoss) {
  const std::vector<i32> targets = padded_targets(c.rows);
  std::vector<float> tokens;
  for (u64 r = 0; r < c.rows; ++r) {
    const float* first = &logits[r * rule.experts];
    if (targets[r] != padding_target) tokens.insert(tokens.end(), first, first + rule.experts);
  }
  const u32 count = static_cast<u32>(tokens.size() / rule.experts);
  const Routed all = route(rule, c.rows, logits, correction, 2);
  const Routed got = route(rule, c.rows, logits, correction, 2, targets);
  const Routed want = route(rule, count, tokens, correction, 2);
  EXPECT_EQ(got.experts, all.experts);  // experts compute rows of padding, too
  EXPECT_TRUE(same_bits(got.weights, all.weights));
  EXPECT_EQ(got.counts, want.counts);
  for (u64 i = 0; i < want.sums.size(); ++i) EXPECT_NEAR(got.sums[i], want.sums[i], 1e-12 * want.sums[i]);
}

TEST_P(RouterTest, SumsGoOnFromThoseOfEarlierRows) {
  const Routed once = route(rule, c.rows, logits, correction, 2);
  const Routed twice = route(rule, c.rows, logits, correction, 2, {}, &once);
  for (u32 e = 0; e < rule.experts; ++e) EXPECT_EQ(twice.counts[e], 2 * once.counts[e]);
  for (u64 i = 0; i < once.sums.size(); ++i)
    EXPECT_NEAR(twice.sums[i], 2 * once.sums[i], 1e-12 * (1 + std::abs(once.sums[i])));
}

TEST_P(RouterTest, PaddingHasNoGradientAndChangesNoOther) {
  const Routed forward = route(rule, c.rows, logits, correction, 2);
  LossTerms loss = {.dweights = random_floats(choices, 3),
                    .counts = std::vector<i32>(u64{LossTerms::layers} * rule.experts, 4),
                    .targets = {},
                    .with_weights = true,
                    .with_balance = true,
                    .with_z = true};
  std::vector<float> want = backward(c, logits, forward, loss, 2);
  loss.targets = padded_targets(c.rows);
  for (u64 r = 0; r < c.rows; ++r)
    if (loss.targets[r] == padding_target) std::fill_n(&want[r * rule.experts], rule.experts, 0.0f);
  EXPECT_TRUE(same_bits(backward(c, logits, forward, loss, 2), want));
  // Without any token there is no mean, and no division by zero.
  std::ranges::fill(loss.counts, 0);
  std::ranges::fill(loss.targets, padding_target);
  EXPECT_TRUE(same_bits(backward(c, logits, forward, loss, 2), std::vector<float>(logits.size(), 0.0f)));
}

INSTANTIATE_TEST_SUITE_P(Rules, RouterTest, testing::ValuesIn(router_cases));

TEST(Router, GivesTiesToTheLowerIndex) {
  const std::vector<float> logits = {1, 3, 3, 0.0f, 3, -0.0f};
  for (RouterScores scores : {RouterScores::softmax, RouterScores::chosen_softmax, RouterScores::sigmoid}) {
    const Routed got = route({.experts = 6, .chosen = 5, .scores = scores}, 1, logits, {}, 1);
    EXPECT_EQ(got.experts, (std::vector<i32>{1, 2, 4, 0, 3}));
  }
  const RouterRule groups = {
      .experts = 8, .chosen = 3, .scores = RouterScores::sigmoid, .groups = 4, .chosen_groups = 2};
  EXPECT_EQ(route(groups, 1, std::vector<float>(8, 1.0f), {}, 1).experts, (std::vector<i32>{0, 1, 2}));
}

TEST(Router, GivesTiesBetweenGroupsToTheLowerIndex) {
  const RouterRule rule = {
      .experts = 6, .chosen = 2, .scores = RouterScores::sigmoid, .groups = 3, .chosen_groups = 2};
  // The last group is the best, and its best expert is as good as the first group's.
  EXPECT_EQ(route(rule, 1, {1, 0, -9, -9, 1, 0.5f}, {}, 1).experts, (std::vector<i32>{0, 4}));
}

TEST(Router, CountsNoEntropyOfAnImpossibleExpert) {
  const Routed got = route({.experts = 3, .chosen = 2}, 1, {0, -INFINITY, 0}, {}, 1);
  EXPECT_EQ(got.experts, (std::vector<i32>{0, 2}));
  EXPECT_NEAR(got.sums[3], std::log(2.0), 1e-6);
  EXPECT_EQ(got.sums[1], 0);
}

TEST(Router, ChoosesGroupsByTheirTwoBestExperts) {
  const RouterRule rule = {
      .experts = 6, .chosen = 2, .scores = RouterScores::sigmoid, .groups = 2, .chosen_groups = 1};
  // The best expert of all is in the first group, but the second group has two good experts.
  EXPECT_EQ(route(rule, 1, {9, -9, -9, 1, 2, -9}, {}, 1).experts, (std::vector<i32>{4, 3}));
  // The correction chooses and does not weigh.
  const Routed corrected = route(rule, 1, {9, -9, -9, 1, 2, -9}, {0, 1, 0, 0, 0, 0}, 1);
  EXPECT_EQ(corrected.experts, (std::vector<i32>{1, 0}));
  EXPECT_NEAR(corrected.weights[0], sigmoid(-9), 1e-9);
}

TEST(Router, MakesWeightsOfARowWithNanNanAndItsExpertsValid) {
  const RouterRule rules[] = {{.experts = 6, .chosen = 3},
                              {.experts = 6, .chosen = 3, .normalise = true},
                              {.experts = 6, .chosen = 3, .scores = RouterScores::chosen_softmax},
                              {.experts = 6,
                               .chosen = 3,
                               .scores = RouterScores::sigmoid,
                               .normalise = true,
                               .groups = 3,
                               .chosen_groups = 2}};
  for (const RouterRule& rule : rules) {
    const std::vector<float> some = {1, NAN, 5, 4, -NAN, 2}, all(6, NAN), none = {1, 2, 3, 4, 5, 6};
    std::vector<float> logits = some;
    logits.insert(logits.end(), all.begin(), all.end());
    logits.insert(logits.end(), none.begin(), none.end());
    const Routed got = route(rule, 3, logits, {}, 1);
    for (u32 r = 0; r < 3; ++r) {
      std::vector<i32> experts(&got.experts[r * 3], &got.experts[r * 3] + 3);
      if (r == 0) {
        EXPECT_EQ(experts[0], 2);
        EXPECT_EQ(experts[1], 3);
      }
      std::sort(experts.begin(), experts.end());
      EXPECT_EQ(std::unique(experts.begin(), experts.end()), experts.end());
      EXPECT_GE(experts.front(), 0);
      EXPECT_LT(experts.back(), 6);
      for (u32 j = 0; j < 3; ++j) EXPECT_EQ(std::isnan(got.weights[r * 3 + j]), r < 2);
    }
    EXPECT_TRUE(std::isnan(got.sums[7]));
  }
}

// Two layers, three experts of which a token chooses two. layer_tokens: tokens that have been routed.
struct Totals {
  explicit Totals(i32 layer_tokens) {
    for (u64 i = 0; i < counts.size(); ++i) counts[i] = i % 3 == 0 ? layer_tokens : layer_tokens / 2;
    for (u64 i = 0; i < probabilities.size(); ++i) probabilities[i] = layer_tokens * (0.1 + 0.1 * double(i));
    entropy = {0.5 * layer_tokens, 0.7 * layer_tokens}, z = {2.0 * layer_tokens, 4.0 * layer_tokens};
  }
  void add() {
    router_totals_cpu({.chosen = 2,
                       .layers = 2,
                       .experts = 3,
                       .sums = {counts.data(), probabilities.data(), entropy.data(), z.data()},
                       .losses = &losses,
                       .tokens = tokens.data()});
  }
  std::vector<i32> counts = std::vector<i32>(6);
  std::vector<double> probabilities = std::vector<double>(6), entropy, z;
  RouterLosses losses = {.balance = 1, .z = 2, .entropy = 3};
  std::vector<i64> tokens = std::vector<i64>(6, 100);
};

TEST(RouterTotals, AreMeansOverTheTokensThatWereCounted) {
  Totals totals(8);
  totals.add();
  const double tokens = 16;  // 8 of each layer
  double balance = 0;
  for (u64 e = 0; e < 3; ++e)
    balance += 3 * (totals.counts[e] + totals.counts[e + 3]) / tokens *
               (totals.probabilities[e] + totals.probabilities[e + 3]) / tokens;
  EXPECT_DOUBLE_EQ(totals.losses.balance, 1 + balance);
  EXPECT_DOUBLE_EQ(totals.losses.z, 2 + 3.0);
  EXPECT_DOUBLE_EQ(totals.losses.entropy, 3 + 0.6);
  EXPECT_EQ(totals.tokens, (std::vector<i64>{108, 104, 104, 108, 104, 104}));
}

TEST(RouterTotals, OfPaddingAloneAddNothing) {
  Totals totals(0);
  totals.add();
  EXPECT_EQ(totals.losses.balance, 1);
  EXPECT_EQ(totals.losses.z, 2);
  EXPECT_EQ(totals.losses.entropy, 3);
  EXPECT_EQ(totals.tokens, std::vector<i64>(6, 100));
}

}  // namespace tidepool::test::router_test
