// Item "process is taken before the reports are written": the reported process size equals the operating
// system's.
#include <gtest/gtest.h>

#include "report/run_report.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::process_size_test {

TEST(ProcessSize, IsTheOperatingSystemsWithTheReportsWritten) {
  const test::TrainDir dir;
  Config c = test::small_config(dir, "run");
  c.train.max_steps = 30;
  c.output.trace = true;  // writing takes longer than training
  test::ChildRun child(c);
  ASSERT_EQ(child.wait(), 0) << child.output();
  const u64 peak = child.peak_bytes();
  const RunReport report = read_report(c.output.dir).value();
  const double ratio = static_cast<double>(report.rss_peak.value) / static_cast<double>(peak);
  EXPECT_NEAR(ratio, 1, 0.03) << report.rss_peak.value << " reported, " << peak << " by the system";
  const std::string page = test::file_text(c.output.dir + "/report.html");
  EXPECT_NE(page.find("\"rss_peak_bytes\": " + std::to_string(report.rss_peak.value)), std::string::npos);
}

}  // namespace tidepool::process_size_test
