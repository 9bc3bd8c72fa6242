// Item "% of peak above 100": no figure is printed that its measurements do not support.
#include "report/carried_text.h"

#include <gmock/gmock.h>

#include <cmath>

#include "report/terminal.h"

namespace tidepool::carried_text_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunReport run_at(double flops, Spread peak, double speed_at_end = 1) {
  return {.flops_per_second = flops,
          .peak_flops_per_second = peak.most,
          .peak_range = peak,
          .speed_at_end = speed_at_end};
}

TEST(CarriedText, APercentageOfThePeakHoldsForTheWholeSpread) {
  EXPECT_EQ(share_of_peak_text(run_at(41, {98, 100})), "41% of peak");
  EXPECT_EQ(share_of_peak_text(run_at(41, {50, 100})), "41% to 82% of peak");
  EXPECT_EQ(share_of_peak_text(run_at(80, {60, 100})), "at least 80% of peak");
  EXPECT_EQ(share_of_peak_text(run_at(99, {98, 100})), "at least 99% of peak");
  EXPECT_EQ(share_of_peak_text(run_at(103, {98, 100})), "above the measured peak");
  EXPECT_EQ(share_of_peak_text(run_at(110, {100, 100})), "above the measured peak");
  EXPECT_EQ(share_of_peak_text(run_at(41, {})), "");
  RunReport older = run_at(41, {});
  older.peak_flops_per_second = 100;
  EXPECT_EQ(share_of_peak_text(older), "41% of peak");
  older.flops_per_second = 110;
  EXPECT_EQ(share_of_peak_text(older), "above the measured peak");

  EXPECT_DOUBLE_EQ(share_of_peak(run_at(41, {98, 100})), 0.41);
  for (const RunReport& none : {run_at(41, {50, 100}), run_at(103, {98, 100}), run_at(41, {})})
    EXPECT_TRUE(std::isnan(share_of_peak(none)));
}

TEST(CarriedText, NotesChangesOfSpeedAndTheirReason) {
  EXPECT_THAT(measurement_notes(run_at(41, {98, 100}, 1.05)), IsEmpty());
  EXPECT_THAT(measurement_notes(run_at(41, {98, 100}, 0)), IsEmpty());
  EXPECT_THAT(measurement_notes(run_at(41, {60, 100}, 1.6)), ElementsAre(HasSubstr("1.6 times as fast")));
  EXPECT_THAT(measurement_notes(run_at(41, {60, 100}, 0.5)), ElementsAre(HasSubstr("2.0 times as slow")));
  EXPECT_THAT(measurement_notes(run_at(110, {98, 100})), ElementsAre(HasSubstr("was slower then")));
}

TEST(CarriedText, APredictionIsARangeIfItsRoundsDisagree) {
  EXPECT_EQ(seconds_range_text(1.2, {1.18, 1.22}), "1.20 s");
  EXPECT_EQ(seconds_range_text(1.2, {1.0, 1.5}), "1.00 s to 1.50 s");
  EXPECT_EQ(seconds_range_text(1.2, {}), "1.20 s");  // an older report
}

// Regression: 103 % and 110 % were printed when a machine had changed its speed.
TEST(CarriedText, NoReportPrintsMoreThanAllOfThePeak) {
  for (double flops = 50; flops < 250; flops += 1)
    for (const Spread peak : {Spread{98, 100}, Spread{60, 100}, Spread{100, 100}}) {
      RunReport run = run_at(flops, peak);
      run.steps = 5, run.step_seconds = 1, run.train_seconds = 5;
      const std::string text = share_of_peak_text(run);
      const auto percent = text.rfind('%');
      if (percent == std::string::npos) continue;
      const auto begin = text.find_last_not_of("0123456789", percent - 1) + 1;
      EXPECT_LE(std::stoi(text.substr(begin)), 100) << text;
    }
}

}  // namespace tidepool::carried_text_test
