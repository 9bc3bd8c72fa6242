// train.optim_groups: which tensors take which rule, and what is refused.
#include "fit/optimizer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fit/job.h"
#include "optimizers/optimizer.h"
#include "tests/support/train_fixture.h"

namespace tidepool::optimizer_groups_test {

using ::testing::HasSubstr;

Config config_of(Optim optim, std::vector<std::string> groups) {
  Config c;
  c.model = test::small_model(Family::llama);
  c.train.precision = Precision::bf16;
  c.train.sequence_length = 8;
  c.train.learning_rate = 1e-2;
  c.train.optim = optim;
  c.train.optim_groups = std::move(groups);
  c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  return c;
}

const UpdateRule& rule_of(const ModelGraph& graph, std::string_view part) {
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors)
      if (tensor.name.find(part) != std::string::npos) return graph.rules[tensor.rule];
  ADD_FAILURE() << part;
  return graph.rules[0];
}

TEST(OptimizerGroups, GiveTensorsRulesByKindAndName) {
  const auto job = make_job(
      config_of(Optim::adamw_torch, {"embedding, head: learning_rate=1e-3, weight_decay=0, optim=adamw_bf16",
                                     "*.layers.0.mlp.*: learning_rate=5e-3", "norm: weight_decay=0.25"}));
  ASSERT_TRUE(job) << job.error().message;
  const UpdateRule& embedding = rule_of(job->graph, "embed_tokens");
  EXPECT_EQ(embedding.optim, Optim::adamw_bf16);
  EXPECT_DOUBLE_EQ(embedding.rate, 0.1);
  EXPECT_EQ(embedding.weight_decay, 0.0);
  EXPECT_DOUBLE_EQ(rule_of(job->graph, "layers.0.mlp.down").rate, 0.5);
  EXPECT_DOUBLE_EQ(rule_of(job->graph, "layers.1.mlp.down").rate, 1);
  EXPECT_EQ(rule_of(job->graph, "layers.1.input_layernorm").weight_decay, 0.25);
  // Rules of one optimizer share their state: AdamW in fp32 and in bf16, and the master's remainder.
  EXPECT_EQ(job->graph.state_slots.count(), 5u);
  const UpdateStep step = update_step(embedding, {.learning_rate = 4e-3, .weight_decay = 0.1}, 1, 0);
  EXPECT_EQ(step.unclipped.decay, 1.0f);
}

TEST(OptimizerGroups, LeaveMuonTheMatricesOfLayers) {
  const auto job = make_job(config_of(Optim::muon, {"embedding, head, norm, bias: optim=adamw_8bit"}));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(rule_of(job->graph, "layers.1.self_attn.v_proj").place, UpdatePlace::streamed);
  EXPECT_EQ(rule_of(job->graph, "embed_tokens").optim, Optim::adamw_8bit);
  EXPECT_EQ(rule_of(job->graph, "layernorm").optim, Optim::adamw_torch);  // too small for codes
  EXPECT_FALSE(job->graph.matrix_costs.empty());
}

TEST(OptimizerGroups, HaveAllExpertsOfALayerAlike) {
  Config c = config_of(Optim::adamw_torch, {"*.layers.0.mlp.experts.*: learning_rate=1e-3"});
  c.model = test::small_model(Family::qwen3_moe);
  ASSERT_TRUE(make_job(c));
  c.train.optim_groups = {"*.experts.0.*: learning_rate=1e-3"};
  const auto job = make_job(c);
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("experts 0 and 1 of layer 0"));
}

TEST(TensorSelection, MatchesPatternsWithStars) {
  const auto has = [](const char* pattern, const char* name) {
    return TensorSelection{.names = {pattern}}.has({.name = name});
  };
  EXPECT_TRUE(has("*", "anything"));
  EXPECT_TRUE(has("h.*.weight", "h.0.attn.c_attn.weight"));
  EXPECT_TRUE(has("*.attn.*", "h.0.attn.c_attn.weight"));
  EXPECT_TRUE(has("a*a", "aa"));
  EXPECT_FALSE(has("a*a", "a"));
  EXPECT_TRUE(has("a*b*b*c", "abbbc"));
  EXPECT_FALSE(has("a*b*c*d", "acbd"));
  EXPECT_FALSE(has("h.0", "h.0.attn"));
}

TEST(OptimizerGroups, AreRefusedByName) {
  const auto refusal = [](Optim optim, std::vector<std::string> groups) {
    const auto job = make_job(config_of(optim, std::move(groups)));
    EXPECT_FALSE(job);
    EXPECT_EQ(job.error().kind, ErrorKind::usage);
    return job.error().message;
  };
  const Optim adamw = Optim::adamw_torch;
  EXPECT_THAT(refusal(adamw, {"embedding learning_rate=1"}), HasSubstr("has no ':'"));
  EXPECT_THAT(refusal(adamw, {": learning_rate=1"}), HasSubstr("names no tensors"));
  EXPECT_THAT(refusal(adamw, {"norm: learning_rate"}), HasSubstr("is no setting"));
  EXPECT_THAT(refusal(adamw, {"norm: lr=1"}), HasSubstr("sets 'lr'"));
  EXPECT_THAT(refusal(adamw, {"norm: learning_rate=fast"}), HasSubstr("'fast'"));
  EXPECT_THAT(refusal(adamw, {"norm: learning_rate=-1"}), HasSubstr("'-1'"));
  EXPECT_THAT(refusal(adamw, {"norm: optim=adamax"}), HasSubstr("'adamax'"));
  EXPECT_THAT(refusal(adamw, {"norm: weight_decay=1, weight_decay=2"}), HasSubstr("sets weight_decay twice"));
  EXPECT_THAT(refusal(adamw, {"embeding, norm: learning_rate=1"}), HasSubstr("names 'embeding'"));
  EXPECT_THAT(refusal(adamw, {"adapter: learning_rate=1"}), HasSubstr("is for no tensor"));
  EXPECT_THAT(refusal(adamw, {"*: learning_rate=1", "norm: learning_rate=2"}), HasSubstr("gets no tensor"));
  EXPECT_THAT(refusal(adamw, {"embedding: optim=muon"}), HasSubstr("no tensor that muon is for"));
  EXPECT_THAT(refusal(adamw, {"*.q_proj.*: learning_rate=1"}), HasSubstr("name all of them"));
  EXPECT_THAT(refusal(Optim::muon, {"matrix: optim=adamw_torch"}), HasSubstr("leaves it none"));
}

}  // namespace tidepool::optimizer_groups_test
