// Chooses the device to measure: --device auto|cpu|cuda|cuda:I.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct MeasuredChoice {
  std::optional<u32> gpu;  // nullopt: the cores
  std::string note;        // a line for people: what is missing for a GPU; empty: nothing
};

// Resolves auto to the first GPU if it can be used, else to the cores.
// RETURNS: an error if a GPU was asked for and cannot be used.
Result<MeasuredChoice> choose_measured(std::string_view device);

}  // namespace tidepool
