// Padding is no token of the routers: empty room changes no loss, gradient or count of tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::padded_router_test {

// Room for documents: how they are laid out in batches.
struct Room {
  u32 sequence_length = 0, sequences = 1, micro_batches = 1;
  bool packing = false;
  const char* executor = "cpu";
};

// Numbers of one step.
struct Step {
  double loss = 0, grad_norm = 0;
  RouterMetrics router;
  std::vector<u64> tokens;  // [layers, E]
  u64 dropped = 0;
};

class PaddedRouter : public ::testing::TestWithParam<Family> {
 protected:
  // Documents' ids are a function of their number. A document without tokens is left out.
  static std::string documents(const std::vector<u32>& tokens) {
    std::string lines;
    for (u32 d = 0; d < tokens.size(); ++d) {
      if (tokens[d] == 0) continue;
      std::string ids;
      for (u32 t = 0; t < tokens[d]; ++t)
        ids += fmt::format("{}{}", t == 0 ? "" : ", ", (d * 37 + t * t * 11 + 5) % 256);
      lines += fmt::format("{{\"input_ids\": [{}]}}\n", ids);
    }
    return lines;
  }

  // Trains one step on all documents.
  Step step(const std::vector<u32>& tokens, const Room& room) {
    Config c = test::small_config(dir_, fmt::format("run{}", ++runs_));
    c.model = test::small_model(GetParam());
    c.model.positions = 128;
    c.model.initializer_range = 0.2;  // routers choose unevenly
    if (traits(GetParam()).experts->balance_keys) c.model.experts.balance = true;
    c.model.experts.balance_factor = 0.5;
    c.data.train = {dir_ / fmt::format("documents{}.jsonl", runs_)};
    test::write_file(c.data.train[0], documents(tokens));
    c.data.packing = room.packing;
    c.data.shuffle = false;
    c.data.validation_fraction = 0;
    c.train.per_device_train_batch_size = room.sequences;
    c.train.gradient_accumulation_steps = room.micro_batches;
    c.train.sequence_length = room.sequence_length;
    c.train.max_steps = 1;
    c.machine.executor = room.executor;
    c.output.save = false;
    c.output.trace = false;
    const Result<RunReport> report = test::run(c);
    EXPECT_TRUE(report) << report.error().message;
    if (!report) return {};
    EXPECT_EQ(report->losses.size(), 1u);
    const ExpertUse& use = report->experts.value();
    EXPECT_EQ(use.steps, 1u);
    return {report->losses[0], report->each_grad_norm[0], use.each_step[0], use.tokens, use.dropped};
  }

  // fp32: products of other shapes sum in another order.
  static void expect_same(const Step& got, const Step& want) {
    const auto expect_near = [](double a, double b) { EXPECT_NEAR(a, b, 2e-6 * std::abs(b)); };
    expect_near(got.loss, want.loss);
    expect_near(got.grad_norm, want.grad_norm);
    for (const RouterMetric& of : router_metrics) {
      SCOPED_TRACE(name(of.metric));
      expect_near(got.router.*of.value, want.router.*of.value);
    }
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.dropped, 0u);
  }

  u64 choices(u64 tokens) const {
    const ModelConfig model = test::small_model(GetParam());
    u64 layers = 0;
    for (u32 layer = 0; layer < model.layers; ++layer) layers += model.has_experts(layer);
    return layers * tokens * model.experts.chosen;
  }

  test::TrainDir dir_;
  u32 runs_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Families, PaddedRouter,
                         ::testing::Values(Family::qwen3_moe, Family::mixtral, Family::gpt_oss,
                                           Family::deepseek_v3),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(PaddedRouter, ADocumentHasTheSameNumbersInSequencesOfAnyLength) {
  const Step want = step({36}, {.sequence_length = 35});
  EXPECT_EQ(std::accumulate(want.tokens.begin(), want.tokens.end(), u64{0}), choices(35));
  expect_same(want, want);
  for (const bool packing : {false, true}) {
    SCOPED_TRACE(packing ? "packed" : "alone");
    expect_same(step({36}, {.sequence_length = 40, .packing = packing}), want);
    expect_same(step({36}, {.sequence_length = 128, .packing = packing}), want);
  }
}

TEST_P(PaddedRouter, DocumentsHaveTheSameNumbersPackedAndAlone) {
  const std::vector<u32> tokens = {20, 9, 13};
  const Step want = step(tokens, {.sequence_length = 39, .packing = true});
  EXPECT_EQ(std::accumulate(want.tokens.begin(), want.tokens.end(), u64{0}), choices(39));
  expect_same(step(tokens, {.sequence_length = 19, .sequences = 3}), want);
  expect_same(step(tokens, {.sequence_length = 64, .sequences = 3}), want);
  expect_same(step(tokens, {.sequence_length = 30, .sequences = 2, .packing = true}), want);
}

TEST_P(PaddedRouter, RowsAndMicroBatchesWithoutTokensChangeNothing) {
  const std::vector<u32> tokens = {20, 9, 13};
  const Step want = step(tokens, {.sequence_length = 24, .sequences = 3});
  expect_same(step(tokens, {.sequence_length = 24, .sequences = 5}), want);
  expect_same(step(tokens, {.sequence_length = 24, .sequences = 3, .micro_batches = 4}), want);
  expect_same(step(tokens, {.sequence_length = 24, .sequences = 3, .executor = "cpu:2"}), want);
}

// Micro-batches weigh the same, however many tokens each has, but for those that have none.
TEST_P(PaddedRouter, LossesAreMeansOverMicroBatches) {
  const Step first = step({20}, {.sequence_length = 24}), second = step({0, 9}, {.sequence_length = 24});
  const Step both = step({20, 9}, {.sequence_length = 24, .micro_batches = 2});
  for (const auto part : {&RouterMetrics::balance, &RouterMetrics::z, &RouterMetrics::entropy})
    EXPECT_NEAR(both.router.*part, (first.router.*part + second.router.*part) / 2, 1e-6);
  for (u64 i = 0; i < both.tokens.size(); ++i) EXPECT_EQ(both.tokens[i], first.tokens[i] + second.tokens[i]);
  expect_same(step({20, 9}, {.sequence_length = 24, .micro_batches = 3}), both);
  expect_same(step({20, 9}, {.sequence_length = 24, .executor = "cpu:2"}), both);
}

}  // namespace tidepool::padded_router_test
