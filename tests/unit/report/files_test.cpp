#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <set>

#include "base/json/text.h"
#include "config/config.h"
#include "report/drive_life.h"
#include "report/run_report.h"
#include "report/sinks/jsonl.h"
#include "report/sinks/metric_sink.h"
#include "report/trace.h"
#include "tests/support/adamw_state.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::files_test {

namespace json = boost::json;
using test::file_text;
using test::TemporaryDirectory;
using test::write_text;
using ::testing::HasSubstr;

RunReport some_report() {
  RunReport r{.version = "0.1.0", .commit = "abc", .model = "gpt2", .precision = "bf16", .executor = "cpu:1"};
  r.parameters = 1234, r.state = Bytes{14808}, r.weights_xxh3 = "00112233aabbccdd";
  r.steps = 3, r.tokens_per_step = 256, r.losses = {5.5, 0.1, 3.0}, r.eval_steps = {3},
  r.eval_losses = {1.0 / 3};
  r.best_step = 3, r.best_eval_step = 3, r.best_eval_loss = 1.0 / 3, r.best_checkpoint = "run/checkpoint-3",
  r.stopped_early = "why";
  r.train_seconds = 9, r.tokens_per_second = 85.3, r.step_seconds = 3, r.predicted_step_seconds = 2.9;
  r.steps_per_epoch = 2, r.tokens = 768, r.each_grad_norm = {1.5, 2, 1},
  r.each_learning_rate = {0, 1e-3, 5e-4};
  r.each_step_seconds = {2.9, 3, 3.1}, r.flops_per_second = 1e9, r.peak_flops_per_second = 2e9;
  for (u32 i = 0; i < link_count; ++i) r.links[i] = {Bytes{10 + i}, Bytes{20 + i}, Bytes{5 + i}};
  for (u32 i = 0; i < tier_count; ++i) r.tiers[i] = {Bytes{~u64{0}}, Bytes{20 + i}, Bytes{5 + i}};
  r.rss_peak = Bytes{77}, r.checkpoint_written = Bytes{88}, r.io_retries = 2;
  r.disk_endurance = Bytes{1'200'000'000'000'000};
  r.comm = CommUse{Bytes{30}, Bytes{31}};
  r.exposed = {{"compute", 7}, {"disk_read", 2}};
  r.phases = {{"forward", 1, 0.9}};
  r.binds = "disk_read";
  r.gpus = {{"cuda:0", 12, 612.5, 690, 1755, 1590, 71}};
  r.machine = {{"cpu", "A \"fast\" one"}};
  r.config = {{"train.seed", "42"}};
  return r;
}

TEST(ReportJson, ReadsBackWhatItWrote) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(write_report(dir.path(), some_report()).has_value());
  const auto back = read_report(dir.path());
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(*back, some_report());
}

TEST(ReportJson, KeysMissingInAnOlderReportAreUnknown) {
  RunReport r = some_report();
  r.comm.reset();
  std::string text = to_json(r);
  EXPECT_EQ(text.find("\"comm\""), std::string::npos);
  const auto key = text.find("\"disk_endurance_bytes\"");
  text.erase(key, text.find('\n', key) + 1 - key);
  const auto back = parse_report(text, "report.json");
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_FALSE(back->comm.has_value());
  EXPECT_EQ(back->disk_endurance, Bytes{});
}

TEST(DriveLife, FollowsFromEnduranceAndBytesWritten) {
  const DriveLife told = drive_life(Bytes{1'200'000'000'000'000}, 1e12);
  EXPECT_FALSE(told.assumed);
  EXPECT_DOUBLE_EQ(told.seconds, 1200 * 86'400.0);
  const DriveLife assumed = drive_life({}, 1e12);
  EXPECT_TRUE(assumed.assumed);
  EXPECT_EQ(assumed.endurance, endurance_assumed);
  EXPECT_EQ(drive_life_text(assumed), "600 TB of endurance (assumed) last 1.6 years");
}

TEST(ReportJson, HasTheDocumentedKeys) {
  const json::value v = json::parse(to_json(some_report()));
  EXPECT_EQ(v.at("losses").as_array().size(), 3u);
  EXPECT_EQ(v.at("losses").at(1).as_double(), 0.1);
  EXPECT_EQ(v.at("eval_losses").at(0).as_double(), 1.0 / 3);
  EXPECT_EQ(v.at("weights_xxh3").as_string(), "00112233aabbccdd");
  EXPECT_EQ(v.at("tokens_per_second").as_double(), 85.3);
  u64 i = 0;
  for (const char* link : {"h2d", "d2h", "disk_read", "disk_write"}) {
    EXPECT_EQ(v.at("links").at(link).at("planned_bytes").to_number<u64>(), 10 + i);
    EXPECT_EQ(v.at("links").at(link).at("measured_bytes").to_number<u64>(), 20 + i);
    EXPECT_EQ(v.at("links").at(link).at("lower_bound_bytes").to_number<u64>(), 5 + i++);
  }
  for (const char* tier : {"device", "host", "disk"}) {
    for (const char* key : {"budget_bytes", "planned_peak_bytes", "measured_peak_bytes"}) {
      EXPECT_TRUE(v.at("tiers").at(tier).as_object().contains(key));
    }
  }
  for (const char* key : {"rss_peak_bytes", "state_bytes", "step_seconds", "predicted_step_seconds"}) {
    EXPECT_TRUE(v.at(key).is_number()) << key;
  }
  EXPECT_EQ(v.at("exposed_seconds").at("compute").to_number<double>(), 7);
}

TEST(ReportJson, ReadsAReportWithoutSteadySteps) {
  RunReport r = some_report();
  r.links[0].planned_steady = Bytes{9}, r.phase_steps = 7;
  EXPECT_EQ(parse_report(to_json(r), "x").value(), r);
  json::object old = json::parse(to_json(r)).as_object();
  for (auto& [link, use] : old.at("links").as_object()) use.as_object().erase("planned_steady_step_bytes");
  old.erase("phase_steps");
  const Result<RunReport> read = parse_report(json_text(old, JsonStyle::pretty), "x");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->links[0].planned_steady, Bytes{});
  EXPECT_EQ(read->phase_steps, 0u);
}

TEST(ReportJson, ANonFiniteLossIsNull) {
  RunReport r = some_report();
  r.losses[1] = std::nan("");
  const std::string text = to_json(r);
  EXPECT_THAT(text, HasSubstr("[5.5, null, 3.0]"));
  EXPECT_TRUE(std::isnan(parse_report(text, "x")->losses[1]));
}

// Boost's own parser reads the last bit of each of these wrong.
TEST(ReportJson, LossesAreReadBackToTheLastBit) {
  RunReport r = some_report();
  r.losses = {2.907637678825183, 3.2383576419863558};
  EXPECT_EQ(parse_report(to_json(r), "x")->losses, r.losses);
}

TEST(ReportJson, AWrongFileIsNamedWithItsKey) {
  std::string text = to_json(some_report());
  text.replace(text.find("\"measured_bytes\""), 16, "\"measured_bites\"");
  EXPECT_THAT(parse_report(text, "report.json").error().message,
              HasSubstr("report.json: links.h2d.measured_bytes"));
  EXPECT_THAT(parse_report("{", "report.json").error().message, HasSubstr("report.json: not valid JSON"));
  EXPECT_THAT(read_report("/nonexistent").error().message, HasSubstr("/nonexistent/report.json"));
}

MetricLine line_of(u64 step, LogEvent told = LogEvent::step) { return {.event = told, .step = step}; }

TEST(ReportMetrics, LinesAreObjectsWithHuggingFaceNames) {
  MetricLine step = line_of(3);
  step.metrics.set(Metric::step_seconds, 2)
      .set(Metric::epoch, 0.5)
      .set(Metric::loss, std::nan(""))
      .set(Metric::grad_norm, 1.25)
      .set(Metric::learning_rate, 1e-5)
      .set(Metric::train_tokens_per_second, 100);
  EXPECT_EQ(to_json_line(step),
            R"({"step": 3, "epoch": 0.5, "loss": null, "grad_norm": 1.25, "learning_rate": 1e-05, )"
            R"("train_tokens_per_second": 100.0, "step_seconds": 2.0})");
}

TEST(ReportMetrics, NamesAreOfOneMetricEach) {
  std::set<std::string_view> names, tags;
  std::set<u32> places;
  for (u32 i = 0; i < metric_count; ++i) {
    const MetricInfo& of = info(static_cast<Metric>(i));
    EXPECT_TRUE(names.insert(of.name).second) << of.name;
    EXPECT_TRUE(tags.insert(of.tag).second) << of.tag;
    if (of.place > 0) {
      EXPECT_TRUE(places.insert(of.place).second) << of.name;
      EXPECT_NE(of.text, nullptr) << of.name;
    }
  }
  EXPECT_EQ(*places.rbegin(), places.size());
}

// Each kind of log that has one file of lines.
TEST(ReportMetrics, AResumedRunWritesEachStepOnce) {
  const auto check = [](const char* name, auto open) {
    const TemporaryDirectory dir;
    const std::string path = dir.path() + name;
    const auto write = [&](u64 keep, u64 from, u64 to) {
      auto log = open(dir.path(), keep).value();
      for (u64 step = from; step <= to; ++step) {
        MetricLine line = line_of(step);
        line.metrics.set(Metric::loss, 0.5 * static_cast<double>(step)).set(Metric::grad_norm, std::nan(""));
        ASSERT_TRUE(log->append(line).has_value());
      }
    };
    write(0, 1, 5);
    const std::string straight = file_text(path);
    {
      auto log = open(dir.path(), 5).value();
      MetricLine last = line_of(5, LogEvent::run);
      last.metrics.set(Metric::train_runtime, 9).set(Metric::train_loss, 1);
      ASSERT_TRUE(log->append(last).has_value());
    }
    write_text(path, file_text(path) + "{\"step\": 6, \"lo");  // torn by a kill
    write(3, 4, 5);
    EXPECT_EQ(file_text(path), straight);
    EXPECT_EQ(open(dir.path() + "/no/such", 0).error().kind, ErrorKind::io);
  };
  check("/metrics.jsonl", open_jsonl_sink);
  check("/metrics.csv", open_csv_sink);
}

TEST(ReportMetrics, ATableHasAColumnForEachMetric) {
  const TemporaryDirectory dir;
  {
    auto csv = open_csv_sink(dir.path(), 0).value();
    MetricLine step = line_of(3), evaluation = line_of(3, LogEvent::evaluation);
    step.metrics.set(Metric::epoch, 0.25).set(Metric::loss, 1.5).set(Metric::grad_norm, INFINITY);
    evaluation.metrics.set(Metric::eval_loss, 2);
    ASSERT_TRUE(csv->append(step) && csv->append(evaluation));
  }
  const std::string text = file_text(dir.path() + "/metrics.csv");
  EXPECT_THAT(text, ::testing::StartsWith("step,epoch,loss,grad_norm,learning_rate,"));
  const auto commas = [](u32 count) { return std::string(count, ','); };
  constexpr u32 before = static_cast<u32>(Metric::eval_loss);
  EXPECT_THAT(text, HasSubstr("\n3,0.25,1.5,inf" + commas(metric_count - 3) + "\n3" + commas(before + 1) +
                              "2" + commas(metric_count - 1 - before) + "\n"));
  write_text(dir.path() + "/metrics.csv", "step,loss\n1,2\n");
  EXPECT_THAT(open_csv_sink(dir.path(), 1).error().message, HasSubstr("has other columns"));
}

TEST(ReportMetrics, EveryLogThatAConfigMayNameHasARow) {
  std::vector<std::string_view> rows;
  for (const MetricSinkRow& row : metric_sinks())
    if (!row.name.empty()) rows.push_back(row.name);
  EXPECT_THAT(rows, ::testing::ElementsAreArray(report_to_names));
}

TEST(ReportTrace, IsChromeTraceJsonWithNamedLanes) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/trace.json";
  const StateSlots slots = test::adamw_state(Precision::fp32);
  const std::vector<TraceEvent> events = {{.kind = OpKind::forward,
                                           .lane = 0,
                                           .started = Nanos{5'000'500},
                                           .finished = Nanos{6'000'000},
                                           .step = 1,
                                           .block = 1,
                                           .micro_batch = 2},
                                          {.kind = OpKind::read,
                                           .lane = 1,
                                           .started = Nanos{5'000'000},
                                           .finished = Nanos{5'001'000},
                                           .step = 2,
                                           .window = 0,
                                           .cut = 3,
                                           .moved = test::momentum(slots),
                                           .bytes = Bytes{4096}}};
  const auto event = [&](u64 i) { return events[i]; };
  const TraceProcess both[] = {{"measured", events.size(), event}, {"predicted", events.size(), event}};
  const std::span one = std::span(both).first(1);
  ASSERT_TRUE(write_trace(path, one,
                          {.lanes = {"compute", "disk \"read\""},
                           .blocks = {"embedding", "h.0"},
                           .windows = {"wte"},
                           .state_slots = slots})
                  .has_value());
  const json::value v = json::parse(file_text(path));
  const json::array& all = v.at("traceEvents").as_array();
  ASSERT_EQ(all.size(), 2 + 2 * 2 + 2u);
  EXPECT_EQ(all[4].at("args").at("name").as_string(), "disk \"read\"");
  EXPECT_EQ(all[6].at("name").as_string(), "forward h.0");
  EXPECT_EQ(all[6].at("ts").as_double(), 0.5);
  EXPECT_EQ(all[6].at("dur").as_double(), 999.5);
  EXPECT_EQ(all[6].at("args").at("micro_batch").as_int64(), 2);
  EXPECT_EQ(all[7].at("name").as_string(), "read momentum wte/3");
  EXPECT_EQ(all[7].at("ts").as_double(), 0.0);
  EXPECT_EQ(all[7].at("args").at("bytes").as_int64(), 4096);
  const TraceProcess empty{"measured", 0, event};
  ASSERT_TRUE(write_trace(path, {&empty, 1}, {.lanes = {"compute"}}).has_value());
  EXPECT_EQ(json::parse(file_text(path)).at("traceEvents").as_array().size(), 4u);
  ASSERT_TRUE(write_trace(path, both, {.lanes = {"compute", "disk"}}).has_value());
  const json::value two = json::parse(file_text(path));
  EXPECT_EQ(two.at("traceEvents").as_array().size(), 2 * (2 + 2 * 2 + 2u));
  EXPECT_EQ(two.at("traceEvents").as_array().back().at("pid").as_int64(), 2);
  EXPECT_EQ(write_trace(dir.path() + "/no/such", {}, {}).error().kind, ErrorKind::io);
}

}  // namespace tidepool::files_test
