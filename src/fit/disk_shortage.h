// explain_disk() explains an error if memory.disk=auto and the disk is too small: that is the disk's fault,
// and no key of the config fixes it.
#pragma once

#include "config/config.h"
#include "planner/planner.h"

namespace tidepool {

// Rewrites `error`, with which make_plan (or a choice of plans) refused `options`.
// If memory.disk is auto and a larger disk would be enough: ErrorKind::io, naming the directory, its file
// system and the missing bytes.
// If a larger disk would not be enough: the other tiers that are short, as if the disk had room. There is no
// advice if the disk is too small for the advised budgets; the message says so.
// Otherwise: `error` unchanged.
Error explain_disk(const Config&, const ModelGraph&, PlanOptions options, Error error);

}  // namespace tidepool
