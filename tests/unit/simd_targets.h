// Runs a test body on every vector target that this CPU and this build have.
#pragma once

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <vector>

#include "kernels/simd/targets.h"

namespace tidepool {

// body(name) once per target, the portable one included.
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
