// Which of its library's algorithms makes each matrix product on a GPU, where a clock has decided. Kept in a
// file between runs (executor/product_file.h), so that bits stay what they were. Needs no CUDA.
#pragma once

#include <map>
#include <string>

namespace tidepool {

// By card, version of the library, and all of a product that an algorithm may depend on: the algorithm, in
// the library's own form for storage, as hexadecimal digits.
using AlgorithmsByProduct = std::map<std::string, std::string>;

struct ProductChoices {
  AlgorithmsByProduct known;  // from earlier runs, and what is timed here
  AlgorithmsByProduct timed;  // here
  AlgorithmsByProduct used;   // here: all that tuning went through, recalled, timed or advised
  bool may_time = true;       // false: a product that is not known takes the library's first advice
};

}  // namespace tidepool
