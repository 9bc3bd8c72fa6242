// memory.disk=auto: the size that the disk here allows, and the error if it is too small, which is the disk's
// fault: no key of the config fixes it.
#pragma once

#include "fit/job.h"

namespace tidepool {

// memory.disk on this machine: auto becomes the size that a swap file may take at the config's place for it.
Result<Bytes> disk_budget(const Config&);

// Rewrites `error`, with which make_plan (or a choice of plans) refused `options`.
// If memory.disk is auto and a larger disk would be enough: ErrorKind::io, naming the directory, its file
// system and the missing bytes.
// If a larger disk would not be enough: the other tiers that are short, as if the disk had room. There is no
// advice if the disk is too small for the advised budgets; the message says so.
// Otherwise: `error` unchanged.
Error explain_disk(const Job&, PlanOptions options, Error error);

}  // namespace tidepool
