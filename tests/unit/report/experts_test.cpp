// Tests how the routing of tokens to experts is logged, reported and read again.
#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <cmath>

#include "report/run_report.h"
#include "report/sinks/jsonl.h"
#include "report/terminal.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::report_experts_test {

namespace json = boost::json;
using test::file_text;
using test::TemporaryDirectory;
using test::write_text;
using ::testing::HasSubstr;
using ::testing::Not;

// Layers 1 and 3 of 4 experts; expert 2 of layer 3 is the busiest.
ExpertUse some_use() {
  return {.experts = 4,
          .chosen = 2,
          .layers = {1, 3},
          .steps = 3,
          .tokens = {10, 10, 10, 10, 0, 5, 30, 5},
          .last_steps = 1,
          .last_tokens = {4, 4, 4, 4, 0, 0, 16, 0},
          .each_step = {{1.5, 0.25, 1.25, 2, 3}, {1.0 / 3, 0.5, 1.2, 2, 4}, {1, 2, 1.1, 2, 5}}};
}

RunReport some_report() {
  RunReport r{.model = "qwen3_moe 4 x 64"};
  r.experts = some_use();
  return r;
}

TEST(ExpertUse, ImbalanceIsTheBusiestOverTheMeanOfItsLayer) {
  EXPECT_THAT(layer_imbalance(std::span<const u64>(some_use().tokens), 4), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(layer_imbalance(std::span<const u64>(std::vector<u64>(4)), 4), ::testing::ElementsAre(0));
}

TEST(ExpertUse, IsReadBackFromAReportToTheLastBit) {
  const Result<RunReport> read = parse_report(to_json(some_report()), "x");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->experts, some_use());
  EXPECT_EQ(to_json(RunReport{}).find("\"experts\""), std::string::npos);
}

TEST(ExpertUse, AReportWithRowsOfAnotherLengthIsRefused) {
  const std::string text = to_json(some_report());
  const auto fault_of = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    const Result<RunReport> read = parse_report(other, "report.json");
    return read ? "no error" : read.error().message;
  };
  EXPECT_EQ(fault_of("\"layers\": [1, 3]", "\"layers\": [1, 3]"), "no error");
  EXPECT_THAT(fault_of("\"layers\": [1, 3]", "\"layers\": [1]"),
              HasSubstr("experts.tokens, [...], must be a list of 1 lists"));
  EXPECT_THAT(fault_of("\"experts\": 4", "\"experts\": 5"), HasSubstr("must be a list of 5 numbers"));
  EXPECT_THAT(fault_of("\"experts\": 4", "\"experts\": 4000000"), HasSubstr("experts.experts, 4000000"));
  EXPECT_THAT(fault_of("\"dropped_tokens\": 0", "\"dropped_tokens\": -1"), HasSubstr("dropped_tokens"));
}

MetricLine line_of(u64 step, const std::optional<RouterMetrics>& router = std::nullopt) {
  MetricLine line{.event = LogEvent::step, .step = step};
  line.metrics.set(Metric::loss, 1);
  for (const RouterMetric& of : router_metrics)
    if (router) line.metrics.set(of.metric, (*router).*of.value);
  return line;
}

TEST(ExpertUse, LinesOfStepsHaveTheRoutersNumbers) {
  MetricLine m = line_of(3, RouterMetrics{1.5, 0.25, 1.25, 2, 3});
  EXPECT_THAT(to_json_line(m),
              HasSubstr(R"("router_balance": 1.5, "router_z": 0.25, "router_entropy": 1.25, )"
                        R"("expert_imbalance": 2.0, "expert_imbalance_most": 3.0})"));
  m.expert_tokens = ExpertTokens{.steps = 3, .experts = 2, .tokens = {1, 2, 3, 4}};
  EXPECT_THAT(to_json_line(m), HasSubstr(R"("expert_token_steps": 3, "expert_tokens": [[1, 2], [3, 4]]})"));
  EXPECT_THAT(to_json_line(MetricLine{.step = 3}), Not(HasSubstr("router")));
}

TEST(ExpertUse, LinesAreReadBackAndImpossibleCountsAreLeftOut) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/metrics.jsonl";
  MetricLine m = line_of(3, RouterMetrics{1.5, 0.25, 1.25, 2, 3});
  m.expert_tokens = ExpertTokens{.steps = 3, .experts = 2, .tokens = {1, 2, 3, 4}};
  std::string text = to_json_line(m) + "\n" + to_json_line(line_of(4)) + "\n";
  for (const char* rows : {"[[1, 2], [3]]", "[[1, -2]]", "[[]]", "7"})
    text +=
        std::string(R"({"step": 5, "loss": 1, "expert_token_steps": 3, "expert_tokens": )") + rows + "}\n";
  write_text(path, text);
  const Result<StepLog> log = read_metrics(path);
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(log->steps.size(), 6u);
  for (const RouterMetric& of : router_metrics)
    EXPECT_EQ(log->steps[0].metrics[of.metric], m.metrics[of.metric]);
  EXPECT_EQ(log->steps[0].expert_tokens, m.expert_tokens);
  for (u32 i = 1; i < 6; ++i) {
    EXPECT_FALSE(log->steps[i].metrics.has(Metric::router_balance));
    EXPECT_FALSE(log->steps[i].expert_tokens.has_value()) << i;
  }
}

TEST(ExpertUse, TheTerminalNamesTheBusiestExpertsLayerAndDroppedTokens) {
  const Screen screen{.columns = 80};
  EXPECT_THAT(render_report(some_report(), screen),
              HasSubstr("4 experts, 2 per token: no token dropped; busiest 3 times the even load"));
  EXPECT_THAT(render_report(some_report(), screen), HasSubstr("(layer\n 3); router entropy 1.1 of 1.39"));
  RunReport r = some_report();
  r.experts->dropped = 7;
  EXPECT_THAT(render_report(r, screen), HasSubstr("7 choices dropped"));
  EXPECT_THAT(render_report(RunReport{}, screen), Not(HasSubstr("expert")));
}

}  // namespace tidepool::report_experts_test
