#include <cstdlib>

#include "runtime.h"
#include "tests/support/places.h"

namespace emulated_cuda {

// Never the machine's real library, which would look for a real device.
void place_libraries(const Options& options) {
  const std::string cudnn = options.cudnn ? tidepool::built_file("tests/libemulated_cudnn.so") : "off";
  ::setenv("TIDEPOOL_CUDNN", cudnn.c_str(), 1);
}

}  // namespace emulated_cuda
