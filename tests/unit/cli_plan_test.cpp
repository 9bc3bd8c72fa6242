// `tidepool plan`: what its arguments say together.
#include <gmock/gmock.h>

#include "cli/cli.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

const std::string quickstart = TIDEPOOL_SOURCE_DIR "/configs/quickstart.yaml";
const std::string machine = "machine=" TIDEPOOL_SOURCE_DIR "/configs/machines/1xv100-32g.yaml";

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", quickstart});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome r{.code = run_cli(words)};
  std::fflush(stdout);
  r.out = ::testing::internal::GetCapturedStdout();
  r.err = ::testing::internal::GetCapturedStderr();
  return r;
}

void expect_refused(const std::vector<std::string>& words, const std::string& says) {
  const Outcome r = plan(words);
  EXPECT_EQ(r.code, 2) << says;
  EXPECT_THAT(r.err, HasSubstr(says));
  EXPECT_EQ(r.out, "") << says;
}

TEST(CliPlan, no_argument_is_passed_over) {
  expect_refused({"tokens=300B"}, "tokens= asks for predicted times: add machine=FILE");
  expect_refused({"--gantt"}, "--gantt asks for predicted times: add machine=FILE");
  expect_refused({"--max"}, "--max plans for a machine: add machine=FILE");
  expect_refused({machine, "tokens=0"}, "tokens=0: at least 1");
  expect_refused({"machine="}, "machine= names no file");
  expect_refused({"--json", "--text"}, "--text and --json each print");
  expect_refused({machine, "--json", "--gantt"},
                 "--gantt stands under the table, and --json prints no table");
  expect_refused({machine, "--what-if", "--max"}, "--what-if stands under the table, and --max");
  expect_refused({machine, "--max", "--json"}, "--max and --json each print");
  expect_refused({machine, "--text", "tokens=300B"}, "tokens= asks for days of training, and --text");
  expect_refused({"--explain", ""}, "--explain: write op:N or chunk:N");
  expect_refused({"--segment", "drain"}, "add --explain");
}

}  // namespace
}  // namespace tidepool
