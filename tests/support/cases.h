// Cases of tests that draw them at random or try all of many: how many a run goes through.
#pragma once

#include <cstdlib>

#include "base/types.h"

namespace tidepool::test {

// True in `scripts/test.sh --all`, which sets the variable.
inline bool wants_all_cases() { return std::getenv("TIDEPOOL_TEST_ALL_CASES") != nullptr; }

// RETURNS: `whole`, or a quarter of it where not all cases are wanted, and under a sanitizer, which looks at
// what code does with any of them.
inline u32 random_cases(u32 whole) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return whole / 4;
#else
  return wants_all_cases() ? whole : whole / 4;
#endif
}

}  // namespace tidepool::test
