#include "report/drive_life.h"

#include <fmt/format.h>

#include "base/text/units.h"

namespace tidepool {
namespace {

constexpr double seconds_per_day = 86'400;

// Formats as drive makers do, in powers of 1000.
std::string endurance_text(Bytes bytes) {
  const double terabytes = static_cast<double>(bytes.value) * 1e-12;
  return terabytes < 10'000 ? fmt::format("{:.4g} TB", terabytes)
                            : fmt::format("{:.4g} PB", terabytes * 1e-3);
}

std::string long_time_text(double seconds) {
  return seconds < 2 * seconds_per_day ? seconds_text(seconds) : days_text(seconds);
}

}  // namespace

DriveLife drive_life(Bytes told, double bytes_per_day) {
  const Bytes endurance = told.value == 0 ? endurance_assumed : told;
  return {.endurance = endurance,
          .assumed = told.value == 0,
          .seconds = static_cast<double>(endurance.value) / bytes_per_day * seconds_per_day};
}

std::string drive_life_text(const DriveLife& life) {
  return fmt::format("{} of endurance ({}) last {}", endurance_text(life.endurance),
                     life.assumed ? "assumed" : "machine.file", long_time_text(life.seconds));
}

}  // namespace tidepool
