// Where a job does not fit: what of the job itself, and not of its budgets, could be smaller.
#pragma once

#include <string_view>

#include "config/config.h"
#include "planner/planner.h"

namespace tidepool {

// Then "KEY=VALUE KEY=VALUE (a remark), or KEY=VALUE".
inline constexpr std::string_view smaller_job_words = "; or keep the budgets and set ";

// `error`, with which make_plan (or a choice of plans) refused a config where it has `disk`, with what else
// would make the job fit: the largest smaller batch (with as many tokens per step), the longest shorter
// sequences, and weights in 16 bits. Each is planned before it is told; searching takes up to a dozen such
// plans. Other errors as they are.
Error suggest_smaller_job(const Config&, Bytes disk, Error);

}  // namespace tidepool
