// `tidepool tokenize CONFIG.yaml`: the documents of a config, as training would have them.
#pragma once

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// `show`: print so many documents of each source, with and without loss, and write nothing; 0: tokenize all
// into the cache that training will find, and say what they come to.
Result<void> tokenize_config(const Config&, u64 show);

}  // namespace tidepool
