// Packed documents for tests.
#pragma once

#include <vector>

#include "base/types.h"

namespace tidepool::test {

// Documents of 1, 2, 3, ... tokens.
inline std::vector<i32> growing_documents(u32 sequences, u32 tokens) {
  std::vector<i32> starts;
  for (u32 b = 0; b < sequences; ++b) {
    u32 start = 0, length = 1 + b;
    for (u32 t = 0; t < tokens; ++t) {
      if (t == start + length) start = t, ++length;
      starts.push_back(static_cast<i32>(start));
    }
  }
  return starts;
}

}  // namespace tidepool::test
