// What a budget needs and has, in words that one can put into a config and that add up.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// As a config has it, rounded up: "584KiB", "17MiB", "65GiB". From 16 MiB on in MiB, from 64 GiB on in GiB.
std::string budget_text(Bytes);

// What budget_text can say exactly: the same bytes or the next more, the same or the next fewer.
Bytes written_above(Bytes);
Bytes written_below(Bytes);

// "needs 584KiB and has 583KiB (short by 1KiB)": what is needed is rounded up and what is there down, so
// that the two never look alike, and the third is their difference as they stand. REQUIRES: need > has.
std::string shortage_text(Bytes need, Bytes has);

// Of what a device needs, what is no plan's to place: ", of which a GPU's libraries and a step's numbers take
// 75MiB"; empty where nothing is reserved. A budget made for the cores does not count on it.
std::string reserved_text(Bytes reserved);

}  // namespace tidepool
