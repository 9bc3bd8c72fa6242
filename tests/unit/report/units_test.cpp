#include "base/text/units.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/screen.h"

namespace tidepool::units_test {

TEST(ReportUnits, HaveThreeSignificantDigits) {
  EXPECT_EQ(bytes_text(Bytes{0}), "0 B");
  EXPECT_EQ(bytes_text(Bytes{999}), "999 B");
  EXPECT_EQ(bytes_text(Bytes{1023}), "0.999 KiB");
  EXPECT_EQ(bytes_text(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(bytes_text(Bytes{64 * mib}), "64.0 MiB");
  EXPECT_EQ(bytes_text(Bytes{1000 * mib}), "0.977 GiB");
  EXPECT_EQ(bytes_text(Bytes{12 * gib + 300 * mib}), "12.3 GiB");
  EXPECT_EQ(bytes_text(Bytes{~u64{0}}), "16.0 EiB");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(12.34), "12.3");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1240), "1.24k");
  EXPECT_EQ(count_text(1313722368), "1.31B");
  EXPECT_EQ(significant_text(9.996), "10.0");
  EXPECT_EQ(significant_text(0.012345), "0.0123");
  EXPECT_EQ(significant_text(-5.5), "-5.50");
  EXPECT_EQ(significant_text(std::nan("")), "-");
}

TEST(ReportUnits, PrintTimesAndShares) {
  EXPECT_EQ(seconds_text(12e-6), "12.0 us");
  EXPECT_EQ(seconds_text(0.0123), "12.3 ms");
  EXPECT_EQ(seconds_text(0.9999), "1.00 s");
  EXPECT_EQ(seconds_text(59.96), "1m 00s");
  EXPECT_EQ(seconds_text(3599.9), "1h 00m");
  EXPECT_EQ(seconds_text(7384), "2h 03m");
  EXPECT_EQ(seconds_text(200000), "2d 07h");
  EXPECT_EQ(seconds_text(400 * 86'400.0), "400d 00h");
  EXPECT_EQ(seconds_text(std::nan("")), "-");
  EXPECT_EQ(percent_text(0.414), "41%");
  EXPECT_EQ(percent_text(0.004), "0.4%");
  EXPECT_EQ(percent_text(1e-5), "<0.1%");
  EXPECT_EQ(percent_text(0), "0%");
  EXPECT_EQ(ratio_text(1.0149), "1.01");
}

TEST(ReportScreen, WidthCountsVisibleCharacters) {
  const Screen color{.color = true, .unicode = true};
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("█▏·"), 3u);
  EXPECT_EQ(display_width(paint(color, Ink::red, "ab")), 2u);
  EXPECT_EQ(paint({}, Ink::red, "ab"), "ab");
  EXPECT_EQ(pad_left("·", 3), "  ·");
  for (const Screen& screen : {Screen{}, color}) {
    for (const double f : {0.0, 1e-9, 0.31, 0.999, 1.0, 7.0, std::nan("")}) {
      EXPECT_EQ(display_width(bar(screen, f, 20, Ink::red)), 20u) << f;
    }
  }
}

TEST(ReportScreen, ItemsWrapAndAreNeverBroken) {
  EXPECT_EQ(wrap_items({"  aaa", "bbb", "ccc"}, "  ", 10, 4),
            (std::vector<std::string>{"  aaa  bbb", "    ccc"}));
  EXPECT_EQ(wrap_items({"one item longer than the width"}, " ", 5, 0).size(), 1u);
}

TEST(ReportUnits, TwoResourcesMayBind) {
  EXPECT_EQ(binds_text("disk_read"), "disk_read binds");
  EXPECT_EQ(binds_text("compute and h2d"), "compute and h2d bind");
  for (const char* one : {"compute", "h2d"}) EXPECT_TRUE(is_bound_by("compute and h2d", one));
  EXPECT_TRUE(is_bound_by("disk", "disk"));
  for (const char* other : {"disk", "d2h", "compute and h2d", ""})
    EXPECT_FALSE(is_bound_by("compute and h2d", other));
}

// Regression: "Training 4712.3 days" had to be divided by hand.
TEST(ReportUnits, MoreThan400DaysArePrintedAsYears) {
  EXPECT_EQ(days_text(37 * 86'400.0), "37 days");
  EXPECT_EQ(days_text(37.26 * 86'400.0, 1), "37.3 days");
  EXPECT_EQ(days_text(400 * 86'400.0), "400 days");
  EXPECT_EQ(days_text(401 * 86'400.0), "1.1 years");
  EXPECT_EQ(days_text(365'250 * 86'400.0), "1000 years");
  EXPECT_EQ(seconds_text(4712.3 * 86'400), "12.9 years");
}

}  // namespace tidepool::units_test
