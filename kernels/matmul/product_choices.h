// Algorithms of GPU matrix products that a clock has chosen. A file keeps them between runs
// (executor/product_file.h), so that bits stay what they were. Needs no CUDA.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.h"

namespace tidepool {

// By card, version of the library, and all of a product that an algorithm may depend on: the algorithm, in
// the library's own form for storage, as hexadecimal digits.
using AlgorithmsByProduct = std::map<std::string, std::string>;

struct ProductChoices {
  AlgorithmsByProduct known;  // from earlier runs, and what is timed here
  AlgorithmsByProduct timed;  // here
  AlgorithmsByProduct used;   // here: all that tuning went through, recalled, timed or advised
  bool may_time = true;       // false: a product that is not known takes the library's first advice
  // Called once, before the first product that is not known is timed: adds to `known` what other runs have
  // timed meanwhile, and clears `may_time` where nothing could be kept. Empty: nothing to do.
  std::function<Result<void>()> before_timing = {};
};

}  // namespace tidepool
