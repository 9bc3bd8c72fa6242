// Tokenizes the documents of a config as training would: `tidepool tokenize CONFIG.yaml`.
#pragma once

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// `show`: if above 0, prints so many documents of each source, marked with and without loss, and writes
// nothing. If 0, tokenizes all documents into the cache that training will use, and prints their totals.
Result<void> tokenize_config(const Config&, u64 show);

}  // namespace tidepool
