// From files whose kind is known to a dataset.
#pragma once

#include <memory>
#include <vector>

#include "data/batches/dataset.h"
#include "data/files/source_files.h"

namespace tidepool {

// What Dataset::open makes of data.train and its share that is held out; errors as there. The config's own
// names of files are read for messages only.
Result<std::unique_ptr<Dataset>> open_sources(const std::vector<SourceFiles>&, const DataConfig&,
                                              u32 vocab_size, u32 sequence_length, u64 seed,
                                              const DataPlace&);

}  // namespace tidepool
