// Benchmarks a GPU, or the cores if there is no GPU: `tidepool bench copy|gemm|attention`.
#pragma once

#include <array>
#include <string>

#include "cli/bench/bench.h"
#include "probe/benches.h"

namespace tidepool {

// On the cores, gemm is run by bench_gemm(), which compares with the library itself.
Result<void> bench_copy(const BenchOptions&);
Result<void> bench_attention(const BenchOptions&);
Result<void> bench_gpu_gemm(const BenchOptions&, u32 gpu);

// RETURNS: tables, lines of at most 80 columns.
std::string copy_table(const CopyResult&);
std::string gemm_table(const std::vector<LayerProduct>&, const std::vector<BenchRow>&);
std::string attention_table(const AttentionWork&, const AttentionResult&);

}  // namespace tidepool
