// Packed documents for tests.
#pragma once

#include <algorithm>
#include <vector>

#include "tidepool/batch_arrays.h"

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

struct SharedPrompts {
  std::vector<i32> starts;
  std::vector<KeyHole> holes;
};

// Prompts of several lengths, shorter and longer than tiles, each with three completions that share it.
inline SharedPrompts shared_prompts(u32 sequences, u32 tokens) {
  SharedPrompts out;
  for (u32 b = 0; b < sequences; ++b)
    for (u32 t = 0, unit = b; t < tokens; ++unit) {
      const u32 start = t, prompt = 1 + unit * 37 % 150;
      for (u32 completion = 0; completion < 3; ++completion) {
        const u32 length = 1 + (unit * 53 + completion * 29) % 90;
        const u32 begin = completion == 0 ? start : t,
                  end = completion == 0 ? start + prompt + length : t + length;
        for (; t < std::min(end, tokens); ++t) {
          out.starts.push_back(static_cast<i32>(start));
          const bool behind = completion > 0;
          out.holes.push_back(behind ? KeyHole{static_cast<i32>(start + prompt), static_cast<i32>(begin)}
                                     : KeyHole{});
        }
      }
    }
  return out;
}

}  // namespace tidepool::test
