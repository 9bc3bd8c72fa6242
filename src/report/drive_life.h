// Computes how long a drive lasts at a rate of writing: one rule for plans and for runs.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// Endurance that makers commonly promise for a 1 TB consumer drive. Assumed if machine.file gives no
// endurance.
inline constexpr Bytes endurance_assumed{600'000'000'000'000};

struct DriveLife {
  Bytes endurance{};
  bool assumed = false;
  double seconds = 0;  // until `endurance` bytes are written; infinite if nothing is written
};
// `told`: the endurance in machine.file, the bytes that may be written; 0: not given.
DriveLife drive_life(Bytes told, double bytes_per_day);

// "600 TB of endurance (assumed) last 37 days"
std::string drive_life_text(const DriveLife&);

}  // namespace tidepool
