// `tidepool score` against evaluation, and the loop from a reward model to rollouts that are trained on.
#include <gmock/gmock.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "inference/evaluate.h"
#include "inference/score.h"
#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/preference_pairs.h"

namespace tidepool::score_run_test {

namespace json = boost::json;
using test::TrainDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string written(const TrainDir& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir / name) << text;
  return dir / name;
}

struct Out {
  std::vector<std::string> lines;
  std::string error;
  u64 tokens = 0;

  json::object object(size_t line) const { return json::parse(lines.at(line)).as_object(); }
};
Out scored(const std::string& source, const std::string& data, std::vector<std::string> overrides = {},
           bool by_token = false) {
  Out out;
  const auto done = score_documents({.source = source,
                                     .overrides = std::move(overrides),
                                     .data = {data},
                                     .by_token = by_token,
                                     .quiet = true,
                                     .take = [&](const std::string& line) -> Result<void> {
                                       out.lines.push_back(line);
                                       return {};
                                     }});
  if (!done) out.error = done.error().message;
  if (done) out.tokens = done->tokens;
  return out;
}

// A trained model, and texts of many lengths that share rows.
struct Model {
  TrainDir dir;
  std::string directory = test::made_base(dir, Family::qwen3);
  std::string texts = [this] {
    std::string out;
    for (u32 i = 0; i < 40; ++i)
      out += fmt::format("{{\"text\": \"{}\", \"n\": {}}}\n", std::string(2 + i * 7 % 29, "abc"[i % 3]), i);
    return written(dir, "texts.jsonl", out);
  }();
};

const std::vector<std::string> small = {"memory.device=16MiB", "memory.host=16MiB", "sequence_length=32"};

TEST(Score, SumsAreThoseOfAnEvaluation) {
  const Model model;
  const Out out = scored(model.directory, model.texts, small, true);
  ASSERT_EQ(out.error, "");
  ASSERT_EQ(out.lines.size(), 40u);
  double sum = 0, count = 0;
  for (size_t i = 0; i < 40; ++i) {
    const json::object line = out.object(i);
    EXPECT_EQ(line.at("n").as_int64(), i64(i));
    const double logp = line.at("logprob").to_number<double>(),
                 tokens = line.at("tokens").to_number<double>();
    EXPECT_NEAR(line.at("perplexity").to_number<double>(), std::exp(-logp / tokens), 1e-6);
    EXPECT_EQ(line.at("token_logprobs").as_array().size(), tokens);
    sum += logp, count += tokens;
  }
  const auto evaluation =
      evaluate_model({.source = model.directory, .overrides = small, .data = {model.texts}, .quiet = true});
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(evaluation->all.result.targets, count);
  EXPECT_NEAR(evaluation->all.loss(), -sum / count, 1e-6);
}

TEST(Score, BudgetsAndBatchesChangeNoBit) {
  const Model model;
  const Out whole = scored(model.directory, model.texts, small);
  for (const char* other : {"memory.device=2MiB", "gradient_accumulation_steps=3"}) {
    std::vector<std::string> overrides = small;
    overrides.emplace_back(other);
    const Out again = scored(model.directory, model.texts, overrides);
    EXPECT_EQ(again.error, "");
    EXPECT_EQ(again.lines, whole.lines) << other;
  }
}

TEST(Score, LinesKeepTheirTextAndOrder) {
  const Model model;
  const std::string data = written(model.dir, "a.jsonl",
                                   "{\"text\": \"ab\", \"id\": 12345678901234567890123}\n\n{\"prompt\": "
                                   "\"p\"}\n{\"tokens\": [9, \"}\"], \"text\": \"abc\", \"e\": 1e5, \"big\": "
                                   "12345678901234567890123, \"perplexity\": {}}\n{\"text\": \"a\"}\n");
  EXPECT_THAT(scored(model.directory, data, small).error, HasSubstr("a.jsonl:3"));
  std::vector<std::string> skips = small;
  skips.emplace_back("data.on_bad_record=skip");
  const Out out = scored(model.directory, data, skips);
  ASSERT_EQ(out.error, "");
  // A text of one token predicts nothing.
  EXPECT_THAT(
      out.lines,
      ElementsAre(
          testing::StartsWith("{\"text\": \"ab\", \"id\": 12345678901234567890123, \"logprob\": "),
          AllOf(testing::StartsWith("{ \"text\": \"abc\", \"e\": 1e5, \"big\": 12345678901234567890123, "
                                    "\"logprob\": "),
                HasSubstr("\"tokens\": 2, \"perplexity\": "))));
}

TEST(Score, LongDocumentsAreNamed) {
  const Model model;
  const std::string data = written(model.dir, "a.jsonl", "{\"text\": \"" + std::string(34, 'a') + "\"}\n");
  EXPECT_THAT(scored(model.directory, data, small).error,
              AllOf(HasSubstr("a.jsonl:1: the document has 34 tokens, and 33 fit"),
                    HasSubstr("raise train.sequence_length")));
}

// Rewards of a reward model and log-probabilities of the model that sampled: rollouts to train on, whose
// first step has ratios of 1.
TEST(Score, PlainTextIsRefused) {
  const Model model;
  const Out out = scored(model.directory, written(model.dir, "plain.txt", "some text\n"));
  EXPECT_THAT(out.error, AllOf(HasSubstr("plain.txt: score takes JSONL"), HasSubstr("{\"text\": ...}")));
}

TEST(Score, RolloutsGoThroughTheLoop) {
  const Model model;
  Config c = test::small_config(model.dir, "judge");
  c.model = test::small_model(Family::qwen3);
  c = test::preference(c, model.dir, ObjectiveType::reward);
  c.train.max_steps = 12;
  ASSERT_TRUE(test::run(c));
  std::string text;
  for (u32 i = 0; i < 30; ++i)
    text += fmt::format("{{\"prompt\": \"{0}\", \"completions\": [\"{1}\", \"{2}\", \"{1}{2}\"]}}\n",
                        "pqr"[i % 3], std::string(1 + i % 5, 'a'), std::string(1 + i % 4, 'x'));
  const Out rewarded = scored(c.output.dir, written(model.dir, "sampled.jsonl", text));
  ASSERT_EQ(rewarded.error, "");
  ASSERT_EQ(rewarded.lines.size(), 30u);
  const json::array rewards = rewarded.object(0).at("rewards").as_array();
  ASSERT_EQ(rewards.size(), 3u);
  EXPECT_GT(rewards[0].to_number<double>(), rewards[1].to_number<double>());

  const auto joined = [](const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  };
  const std::string with_rewards = written(model.dir, "rewarded.jsonl", joined(rewarded.lines));
  const Out told = scored(model.directory, with_rewards, small);
  ASSERT_EQ(told.error, "");
  EXPECT_EQ(told.object(4).at("logprobs").as_array()[2].as_array().size(), 6u);
  Config policy = test::small_config(model.dir, "policy");
  policy.model = c.model, policy.model.score = {};
  policy.model_directory = model.directory;
  policy = test::preference(policy, model.dir, ObjectiveType::grpo, model.directory);
  policy.data.validation_fraction = 0;
  policy.train.max_steps = 2;
  std::vector<double> losses;
  for (const std::string& data : {written(model.dir, "told.jsonl", joined(told.lines)), with_rewards}) {
    policy.data.train = {data};
    policy.output.dir = model.dir / fmt::format("policy-{}", losses.size());
    const auto report = test::run(policy);
    ASSERT_TRUE(report) << report.error().message;
    losses.push_back(report->losses[0]);
    EXPECT_THAT(test::file_text(policy.output.dir + "/metrics.jsonl"),
                HasSubstr("\"clip_ratio/region_mean\": 0"));
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);  // as the pass before training makes them
}

TEST(Score, ClassifiersAreSentToEval) {
  const Model model;
  Config c = test::small_config(model.dir, "classes");
  c.model = test::small_model(Family::qwen3);
  c.model.score = {.labels = 3};
  c.objective.type = ObjectiveType::sequence_classification;
  c.data.train = {written(model.dir, "labels.jsonl",
                          "{\"text\": \"ab\", \"label\": 1}\n{\"text\": \"cd\", \"label\": 0}\n")};
  c.data.labelled = c.model.score;
  c.data.validation_fraction = 0;
  c.train.max_steps = 1;
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(scored(c.output.dir, model.texts).error, HasSubstr("gives 3 labels"));
}

}  // namespace tidepool::score_run_test
