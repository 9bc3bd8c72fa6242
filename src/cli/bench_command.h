// The words of `tidepool bench`.
#pragma once

#include <span>

#include "cli/options.h"

namespace tidepool {

std::span<const Option> bench_options();
Result<void> run_bench(const Arguments&);

}  // namespace tidepool
