// Decides how many cases a test runs that draws cases at random or tries all of many.
#pragma once

#include <cstdlib>

#include "base/types.h"
#include "tests/support/places.h"

namespace tidepool::test {

// RETURNS: true if the environment asks for them: by hand, before a release, and in `scripts/gpu_check.sh`.
inline bool wants_all_cases() { return std::getenv("TIDEPOOL_TEST_ALL_CASES") != nullptr; }

// RETURNS: `whole`; or a quarter of it if not all cases are wanted, and under a sanitizer, which checks the
// behaviour of any case.
inline u32 random_cases(u32 whole) { return wants_all_cases() && !under_sanitizer() ? whole : whole / 4; }

}  // namespace tidepool::test
