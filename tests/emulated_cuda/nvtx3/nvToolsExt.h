// The ranges of NVTX that we use, recorded for tests.
#pragma once

#include <string>
#include <vector>

namespace emulated_cuda {

struct NvtxRanges {
  std::vector<std::string> names;  // in order of their begin
  int open = 0;
};
inline NvtxRanges& nvtx_ranges() {
  thread_local NvtxRanges ranges;
  return ranges;
}

}  // namespace emulated_cuda

inline int nvtxRangePushA(const char* name) {
  emulated_cuda::nvtx_ranges().names.emplace_back(name);
  return emulated_cuda::nvtx_ranges().open++;
}
inline int nvtxRangePop() { return --emulated_cuda::nvtx_ranges().open; }
