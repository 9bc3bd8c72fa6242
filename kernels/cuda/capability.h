#pragma once

namespace tidepool::cuda {

// Of the current device: 10 times major plus minor, 90 for sm_90. 0: it does not say.
int current_capability();

}  // namespace tidepool::cuda
