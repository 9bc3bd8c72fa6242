// current_capability() tells which GPU architecture runs, for choices at run time.
#pragma once

namespace tidepool::cuda {

// RETURNS: compute capability of the current device, 10 times major plus minor: 90 for sm_90. 0: unknown.
int current_capability();

}  // namespace tidepool::cuda
