// drive_life() estimates how long a drive lasts at a rate of writing. Plans and reports use the same rule.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// Endurance that makers commonly state for a 1 TB consumer drive; used if machine.file states none.
inline constexpr Bytes endurance_assumed{600'000'000'000'000};

struct DriveLife {
  Bytes endurance{};
  bool assumed = false;
  double seconds = 0;  // until the endurance is used up; infinite if nothing is written
};
// `told`: endurance from machine.file; 0: not stated.
DriveLife drive_life(Bytes told, double bytes_per_day);

// RETURNS: "600 TB of endurance (assumed) last 37 days".
std::string drive_life_text(const DriveLife&);

}  // namespace tidepool
