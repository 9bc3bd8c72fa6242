// ProductChoices holds the algorithms of GPU matrix products that were chosen by timing. A file keeps them
// between runs (executor/product_file.h), so that a resumed run computes the same bits. Needs no CUDA.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.h"

namespace tidepool {

// Key: the card, the library's version, and every property of a product on which an algorithm may depend.
// Value: the algorithm in the library's storage format, as hexadecimal digits.
using AlgorithmsByProduct = std::map<std::string, std::string>;

struct ProductChoices {
  AlgorithmsByProduct known;  // from earlier runs and from this run
  AlgorithmsByProduct timed;  // timed by this run
  AlgorithmsByProduct used;   // of every product that this run tuned: recalled, timed or advised
  bool may_time = true;       // false: an unknown product takes the library's first advice
  // Called once, before the first unknown product is timed: adds to `known` the choices that other runs have
  // made in the meantime, and clears `may_time` if new choices could not be stored. Empty: no-op.
  std::function<Result<void>()> before_timing = {};
};

}  // namespace tidepool
