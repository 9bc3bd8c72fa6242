// Runs a test body on every vector target of this CPU and this build.
#pragma once

// clang-format off: this include decides which of the following ones compile
#include "kernels/simd/targets.h"
// clang-format on

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <vector>

namespace tidepool {

// Calls body(name) once per target, including the portable one.
template <class Body>
void for_each_simd_target(Body&& body) {
  for (i64 targets = hwy::SupportedTargets() & HWY_TARGETS; targets != 0; targets &= targets - 1) {
    const i64 target = targets & -targets;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace tidepool
