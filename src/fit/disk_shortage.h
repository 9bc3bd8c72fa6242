// memory.disk=auto and a disk that is too small: that is the disk's fault, and no key of the config mends it.
#pragma once

#include "config/config.h"
#include "planner/planner.h"

namespace tidepool {

// What to tell of `error`, with which make_plan (or a choice of plans) refused `options`. Where memory.disk
// is auto and a larger disk would do: ErrorKind::io, naming the directory, its file system and what is
// missing. Where that would not do either: what else is short, as if the disk had room, and no advice if
// that leaves the disk too small; the message says so. Else `error` itself.
Error explain_disk(const Config&, const ModelGraph&, PlanOptions options, Error error);

}  // namespace tidepool
