// Section `objective`, and what a model directory says of its labels.
#include "objectives/objective.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "config/config.h"
#include "config_files/load_config.h"
#include "huggingface/directory/hf_config.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/places.h"

namespace tidepool::objective_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view smallest = "data: {train: a.jsonl}\nmemory: {device: 1GiB, host: 2GiB}\n";
const std::string type = "objective.type=sequence_classification";

Config parse(const std::vector<std::string>& overrides) {
  auto config = parse_config(smallest, "c.yaml", overrides);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? *config : Config{};
}
std::string fault_of(const std::vector<std::string>& overrides) {
  const auto config = parse_config(smallest, "c.yaml", overrides);
  if (config) return "no error";
  EXPECT_EQ(config.error().kind, ErrorKind::usage);
  return config.error().message;
}

TEST(ConfigObjective, NamesCountTheLabels) {
  const Config c = parse({type, "objective.labels=no,yes,maybe"});
  EXPECT_EQ(c.model.score.labels, 3u);
  EXPECT_EQ(c.model.head_rows(), 3u);
  ASSERT_TRUE(c.data.labelled);
  EXPECT_THAT(c.data.labelled->names, ElementsAre("no", "yes", "maybe"));
  EXPECT_EQ(parse({type, "num_labels=5"}).model.score.name(4), "LABEL_4");
  EXPECT_FALSE(parse({}).data.labelled);
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml", {}).value(), c);
}

TEST(ConfigObjective, WrongLabelsAreNamed) {
  EXPECT_THAT(fault_of({type}), HasSubstr("objective.num_labels: a classifier has 2 labels or more"));
  EXPECT_THAT(fault_of({type, "num_labels=1"}), HasSubstr("set objective.num_labels, or name them"));
  EXPECT_THAT(fault_of({type, "num_labels=3", "objective.labels=a,b"}),
              HasSubstr("objective.labels: 2 names for 3 labels"));
  EXPECT_THAT(fault_of({type, "objective.labels=a,b,a"}), HasSubstr("'a' names two labels"));
  EXPECT_THAT(fault_of({"num_labels=3"}), HasSubstr("set objective.type=sequence_classification"));
  EXPECT_THAT(fault_of({type, "num_labels=300"}), HasSubstr("300 is more than the 256 tokens"));
  EXPECT_THAT(fault_of({type, "num_labels=3", "data.records=messages"}),
              HasSubstr("data.records: messages is not what objective.type"));
}

TEST(ConfigObjective, AClassifiersDirectoryBringsItsLabels) {
  const std::string model = "model=" + source_file("tests/golden/classifiers/llama");
  const std::string length = "sequence_length=20";
  const Config c = parse({model, length});
  EXPECT_EQ(c.objective.type, ObjectiveType::sequence_classification);
  EXPECT_THAT(c.model.score.names, ElementsAre("anger", "joy", "fear", "calm"));
  EXPECT_THAT(parse({model, length, "objective.labels=a,b,c,d"}).model.score.names,
              ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(fault_of({model, length, "objective.labels=calm,anger,joy,fear"}),
              HasSubstr("the same names in another order (anger, joy, fear, calm)"));
  EXPECT_THAT(fault_of({model, length, "num_labels=3"}), HasSubstr("head has 4 labels, and these are 3"));
  EXPECT_THAT(fault_of({model, length, "objective.type=next_token"}),
              HasSubstr("name a model that predicts tokens"));
}

TEST(ConfigObjective, OtherClassifiersAreRefused) {
  const test::ScratchDir dir;
  std::filesystem::copy(source_file("tests/golden/classifiers/llama/config.json"), dir / "config.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::ifstream in(source_file("tests/golden/classifiers/llama/config.json"));
    std::string text(std::istreambuf_iterator<char>(in), {});
    text.replace(text.find(from), from.size(), to);
    return parse_hf_config(text, ErrorKind::bad_input, "config.json");
  };
  const auto several = with("single_label_classification", "multi_label_classification");
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("config.json: problem_type: the model predicts"));
  const auto unnamed = with("\"3\": \"calm\"", "\"4\": \"calm\"");
  ASSERT_FALSE(unnamed);
  EXPECT_THAT(unnamed.error().message, HasSubstr("id2label: must name the labels 0 to 3"));
}

TEST(ConfigObjective, PairsTakeHalfARowEach) {
  const Config c = parse({"objective.type=orpo", "model_type=llama", "sequence_length=64"});
  EXPECT_EQ(c.data.units.documents, Documents::prompted_pairs);
  EXPECT_EQ(c.data.units.sequence_tokens_max, 33u);
  EXPECT_EQ(parse({"objective.type=reward", "model_type=llama", "sequence_length=64"})
                .data.units.sequence_tokens_max,
            32u);
  EXPECT_EQ(parse({"objective.type=reward", "model_type=llama"}).model.score.labels, 1u);
  EXPECT_EQ(parse({"objective.type=simpo", "model_type=llama", "objective.max_length=20"})
                .data.units.sequence_tokens_max,
            20u);
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml", {}).value(), c);
}

TEST(ConfigObjective, ItsReferenceIsTheModelThatItStartsFrom) {
  const std::string model = source_file("tests/golden/families/llama_tied");
  const Config c = parse({"objective.type=dpo", "model=" + model, "sequence_length=20"});
  EXPECT_EQ(c.objective.reference, model);
  EXPECT_THAT(fault_of({"objective.type=dpo", "model_type=llama"}),
              HasSubstr("objective.reference: dpo compares with a reference model; name its directory"));
  EXPECT_THAT(fault_of({"objective.type=orpo", "model_type=llama", "objective.reference=x"}),
              HasSubstr("orpo has no reference model; leave the key out"));
}

TEST(ConfigObjective, DistillsFromATeacherOrFromLines) {
  const Config taught = parse({"objective.type=distill", "objective.teacher=x"});
  EXPECT_TRUE(taught.data.units.taught);
  EXPECT_EQ(taught.data.units.documents, Documents::any);
  EXPECT_EQ(objective_rule(taught.objective).divergence.numbers(), 128u);
  const Config brought = parse({"objective.type=distill", "objective.top_k=5"});
  EXPECT_EQ(brought.data.units.documents, Documents::distributions);
  EXPECT_EQ(brought.data.units.numbers, 10u);
  EXPECT_EQ(parse_config(to_yaml(brought), "again.yaml", {}).value(), brought);
  EXPECT_THAT(fault_of({"objective.teacher=x"}), HasSubstr("next_token has no teacher; leave the key out"));
  EXPECT_THAT(fault_of({"objective.type=distill", "objective.beta=1.5"}), HasSubstr("set it from 0 to 1"));
  EXPECT_THAT(fault_of({"objective.type=distill", "objective.top_k=300"}),
              HasSubstr("300 is more than the 256 tokens"));
  EXPECT_THAT(fault_of({"objective.type=distill", "label_smoothing_factor=0.1"}),
              HasSubstr("objective.label_smoothing: distill does not read it"));
}

TEST(ConfigObjective, LabelsOfTokensHaveAHeadOfTheirOwn) {
  const Config c =
      parse({"objective.type=token_classification", "model_type=llama", "objective.labels=O,LOC"});
  EXPECT_TRUE(c.model.score.of_tokens);
  EXPECT_EQ(c.model.score.dropout, 0.1);
  EXPECT_EQ(c.data.labelled, c.model.score);
  EXPECT_THAT(fault_of({"objective.type=token_classification", "objective.labels=O,LOC"}),
              HasSubstr("is not for gpt2 models"));
  const std::string tokens = "model=" + source_file("tests/golden/targets/tokens_llama_tied"),
                    length = "sequence_length=20";
  EXPECT_EQ(parse({tokens, length}).objective.type, ObjectiveType::token_classification);
  EXPECT_EQ(parse({tokens, length}).model.score.dropout, 0);
  EXPECT_THAT(fault_of({tokens, length, "objective.type=sequence_classification"}),
              HasSubstr("the model directory's labels are those of tokens"));
}

TEST(ConfigObjective, TheBestEvaluationIsByAMetricOfTheObjective) {
  EXPECT_EQ(parse({"metric_for_best_model=eval_perplexity"}).train.metric_for_best_model, "eval_perplexity");
  EXPECT_EQ(parse({"metric_for_best_model=loss", "greater_is_better=false"}).train.greater_is_better,
            AutoBool::no);
  EXPECT_THAT(
      fault_of({"metric_for_best_model=accuracy"}),
      HasSubstr("'accuracy' is not one of eval_loss, perplexity, the metrics of objective.type next_token"));
  const std::vector<std::string> orpo = {"objective.type=orpo", "model_type=llama", "sequence_length=64",
                                         "metric_for_best_model=entropy"};
  EXPECT_THAT(fault_of(orpo), HasSubstr("'entropy' is not one of"));
  std::vector<std::string> logits = orpo;
  logits.push_back("objective.logit_metrics=true");
  EXPECT_EQ(fault_of(logits), "no error");
}

TEST(ConfigObjective, KeysThatNothingReadsAreNamed) {
  const auto unread = [](const std::string& type, const std::string& key, const std::string& value) {
    EXPECT_THAT(fault_of({"objective.type=" + type, "model_type=llama", "sequence_length=64",
                          "objective." + key + "=" + value}),
                HasSubstr(fmt::format("objective.{}: {} does not read it; leave the key out", key, type)));
  };
  unread("next_token", "top_k", "5");
  unread("next_token", "temperature", "2");
  unread("orpo", "label_smoothing", "0.1");
  unread("orpo", "epsilon", "0.1");
  unread("simpo", "cpo_alpha", "0.5");
  unread("rloo", "scale_rewards", "none");
  unread("distill", "ld_alpha", "0.5");
}

TEST(ConfigObjective, WrongLossesAreNamed) {
  const std::string model = "model=" + source_file("tests/golden/families/llama_tied"),
                    length = "sequence_length=20";
  const auto dpo = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"objective.type=dpo", model, length});
    return fault_of(more);
  };
  EXPECT_EQ(dpo({"objective.loss_type=sigmoid,bco_pair,sft", "objective.loss_weights=0.8,0.2,1"}),
            "no error");
  EXPECT_THAT(dpo({"objective.loss_type=apo_zero", "objective.f_divergence_type=forward_kl"}),
              HasSubstr("forward_kl is for losses that compare the two completions"));
  EXPECT_THAT(dpo({"objective.loss_type=sigmoid,sft", "objective.use_weighting=true"}),
              HasSubstr("sft is a mean over tokens; leave one out"));
  EXPECT_THAT(dpo({"objective.loss_type=simpo"}), HasSubstr("'simpo' is not one of sigmoid, hinge, ipo"));
  EXPECT_THAT(dpo({"objective.loss_type=exo_pair"}),
              HasSubstr("objective.label_smoothing: exo_pair needs one"));
  EXPECT_THAT(dpo({"objective.loss_type=hinge", "objective.loss_weights=1,2"}),
              HasSubstr("2 weights for 1 losses"));
  EXPECT_THAT(fault_of({"objective.type=orpo", "model_type=llama", "objective.loss_type=hinge"}),
              HasSubstr("orpo has one loss; leave the key out"));
  EXPECT_THAT(fault_of({"max_length=512"}),
              HasSubstr("is for pairs and answers, and next_token has none; set train.sequence_length"));
  EXPECT_THAT(fault_of({"objective.type=orpo"}),
              HasSubstr("models of type gpt2 have positions for whole rows"));
  EXPECT_THAT(fault_of({"objective.type=reward", "model_type=llama", "num_labels=3"}),
              HasSubstr("a model of type reward gives one score"));
}

}  // namespace tidepool::objective_test
