// Where a job does not fit: what else would make it fit than the budgets that the planner asks for.
#pragma once

#include <optional>
#include <string_view>

#include "config/config.h"
#include "planner/planner.h"
#include "tidepool/machine.h"

namespace tidepool {

// Then "KEY=VALUE KEY=VALUE (a remark), or KEY=VALUE".
inline constexpr std::string_view alternatives_words = "; or instead set ";

// `error`, with which make_plan (or a choice of plans) refused `options`, and what else fits: one budget
// alone where several are short or a disk is wanted that is not there (within what `machine` has, if it is
// known); the largest smaller batch with as many tokens per step; the longest shorter sequences; weights in
// 16 bits. Each is planned before it is told, which takes up to a dozen searches and more tries. Other errors
// as they are.
Error add_alternatives(const Config&, const PlanOptions& options, const std::optional<Machine>&, Error);

}  // namespace tidepool
