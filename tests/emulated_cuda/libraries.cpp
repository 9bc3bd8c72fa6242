#include <cstdlib>

#include "runtime.h"

namespace emulated_cuda {

// A real one that the machine has would look for a real device.
void place_libraries(const Options& options) {
  ::setenv("TIDEPOOL_CUDNN", options.cudnn ? EMULATED_CUDNN : "off", 1);
}

}  // namespace emulated_cuda
