// How long a drive lasts at a pace of writing: one rule for plans and for runs.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// What makers commonly promise of a 1 TB consumer drive: assumed where machine.file tells nothing.
inline constexpr Bytes endurance_assumed{600'000'000'000'000};

struct DriveLife {
  Bytes endurance{};
  bool assumed = false;
  double seconds = 0;  // until it is written; infinite where nothing is
};
// `told`: what machine.file promises may be written; 0: nothing told.
DriveLife drive_life(Bytes told, double bytes_per_day);

// "600 TB of endurance (assumed) last 37 days"
std::string drive_life_text(const DriveLife&);

}  // namespace tidepool
