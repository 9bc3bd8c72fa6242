#include <cstdlib>

#include "runtime.h"

namespace emulated_cuda {

// Never the machine's real library, which would look for a real device.
void place_libraries(const Options& options) {
  ::setenv("TIDEPOOL_CUDNN", options.cudnn ? EMULATED_CUDNN : "off", 1);
}

}  // namespace emulated_cuda
