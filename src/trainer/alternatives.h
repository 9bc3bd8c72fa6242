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

// How far each change is looked into, in ops planned. Where that was too little to tell, the message says so.
inline constexpr u64 change_ops_max = 300'000;

// `error`, with which make_plan (or a choice of plans) refused `options`, and what else fits: one budget
// alone where several are short or a disk is wanted that is not there; the largest smaller batch with as many
// tokens per step; the longest shorter sequences; weights in 16 bits. What `machine`, if it is known, has no
// room for is not advised: where the error does, budgets within what it has take the place of that, or the
// message says that there are none. Each is planned before it is told: up to a dozen searches, of `ops_max`
// at most and few such altogether. Other errors as they are.
Error add_alternatives(const Config&, const PlanOptions& options, const std::optional<Machine>&, Error,
                       u64 ops_max = change_ops_max);

}  // namespace tidepool
