// Compares TensorBoard event files with bytes of TensorBoard's own writer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "report/sinks/event_file.h"
#include "report/sinks/metric_sinks.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::events_test {

using test::file_text;
using test::TemporaryDirectory;
using ::testing::HasSubstr;

constexpr double then = 1'700'000'000.5;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

// Made by tensorboard 2.x: RecordWriter.write(Event(...).SerializeToString()).
TEST(ReportEvents, RecordsAreInTensorBoardsFormat) {
  EXPECT_EQ(hex(version_record(then)),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
  EXPECT_EQ(hex(restart_record(then, 301)),
            "100000000000000095fbfe180900002040fc54d94110ad023a020801596f3f79");
  const Scalar scalars[] = {{"train/loss", 3.25}, {"train/learning_rate", 1e-4}};
  EXPECT_EQ(hex(scalars_record(then, 300, scalars)),
            "3d000000000000006049f1ec0900002040fc54d94110ac022a2f0a110a0a747261696e2f6c6f737315000050400a1a0a"
            "13747261"
            "696e2f6c6561726e696e675f726174651517b7d138d199857e");
}

std::string events_of(const std::string& dir) {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) all += file_text(entry.path());
  return all;
}

const std::vector<std::string> tensorboard = {"tensorboard"};

TEST(ReportEvents, ARunWritesBothLogsWithHuggingFaceNames) {
  const TemporaryDirectory dir;
  const auto log = MetricSinks::open(dir.path(), 0, tensorboard).value();
  MetricLine step{.event = LogEvent::step, .step = 1}, evaluation{.event = LogEvent::evaluation, .step = 1};
  step.metrics.set(Metric::loss, std::nan("")).set(Metric::grad_norm, 1).set(Metric::learning_rate, 1);
  evaluation.metrics.set(Metric::eval_loss, 2);
  log->append(step), log->append(evaluation);
  EXPECT_THAT(log->what_is_missing(), ::testing::IsEmpty());
  const std::string events = events_of(dir.path());
  EXPECT_THAT(events, HasSubstr("brain.Event:2"));
  for (const char* tag : {"train/loss", "train/learning_rate", "train/grad_norm", "eval/loss"})
    EXPECT_THAT(events, HasSubstr(tag));
  EXPECT_THAT(file_text(dir.path() + "/metrics.jsonl"), HasSubstr("\"eval_loss\": 2.0"));
}

TEST(ReportEvents, AResumedRunTellsViewersItsFirstStep) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(MetricSinks::open(dir.path(), 300, tensorboard));
  EXPECT_THAT(events_of(dir.path()), HasSubstr(restart_record(then, 301).substr(21, 7)));
  EXPECT_EQ(EventFile::create(dir.path() + "/no/such", 1).error().kind, ErrorKind::io);
}

}  // namespace tidepool::events_test
