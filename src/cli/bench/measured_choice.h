// Which device a measurement is of: --device auto|cpu|cuda|cuda:I.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct MeasuredChoice {
  std::optional<u32> gpu;  // none: the cores
  std::string note;        // a line for people, or empty: what is missing for a GPU
};

// auto is the first GPU where one can be used, else the cores. Error: a GPU was asked for and is not there.
Result<MeasuredChoice> choose_measured(std::string_view device);

}  // namespace tidepool
