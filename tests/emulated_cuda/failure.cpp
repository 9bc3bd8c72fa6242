#include "failure.h"

#include <cstdio>
#include <cstdlib>

namespace emulated_cuda {

void fail(const std::string& what) {
  std::fprintf(stderr, "emulated CUDA: %s\n", what.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace emulated_cuda
