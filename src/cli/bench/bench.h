// Benchmarks one part of Tidepool against its limit: `tidepool bench`. Each benchmark prints a table or one
// JSON object.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"
#include "tidepool/optim.h"

namespace tidepool {

struct BenchOptions {
  bool json = false;
  u32 threads = 0;               // 0: all cores of this process
  u64 parameters = 100'000'000;  // update only
  Optim optim = Optim::adamw_torch;
  std::string device = "auto";  // for attention, copy and gemm: auto, cpu, cuda or cuda:I
  u32 repetitions = 9;          // medians of this many interleaved runs
  u64 tokens = 0;               // attention: of one sequence; 0: the preset shape
};

Result<void> bench_update(const BenchOptions&);
Result<void> bench_gemm(const BenchOptions&);

}  // namespace tidepool
