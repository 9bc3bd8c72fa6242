// `tidepool bench`: one part against its limit. Each prints a table, or one JSON object.
#pragma once

#include "tidepool/chunk.h"

namespace tidepool {

struct BenchOptions {
  bool json = false;
  u32 threads = 0;                  // 0: all cores of this process
  u64 parameters = 100'000'000;     // adam
  u32 repetitions = 9;              // medians of this many interleaved runs
};

// Both return the process's exit code.
int bench_adam(const BenchOptions&);
int bench_gemm(const BenchOptions&);

}  // namespace tidepool
