// Texts of budgets: sizes that fit into a config as printed, and that add up.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// Size as in a config, rounded up: "584KiB", "17MiB", "65GiB". From 16 MiB in MiB, from 64 GiB in GiB.
std::string budget_text(Bytes);

// Nearest size that budget_text() can write exactly: not smaller, and not larger.
Bytes written_above(Bytes);
Bytes written_below(Bytes);

// "needs 584KiB and has 583KiB (short by 1KiB)". The need is rounded up and the budget down, so the two never
// look alike; the difference is that of the rounded numbers.
// REQUIRES: need > has.
std::string shortage_text(Bytes need, Bytes has);

// Names the part of a device's need that no plan places: ", of which a GPU's libraries and a step's numbers
// take 75MiB"; empty if nothing is reserved. A budget made for the CPU does not include it.
std::string reserved_text(Bytes reserved);

}  // namespace tidepool
