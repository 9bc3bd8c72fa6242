// Opens a dataset from files whose kind is known.
#pragma once

#include <memory>
#include <vector>

#include "data/batches/dataset.h"
#include "data/files/source_files.h"

namespace tidepool {

// Implements Dataset::open() for data.train and its held-out share; errors as there. File names in the config
// are only used for messages.
Result<std::unique_ptr<Dataset>> open_sources(const std::vector<SourceFiles>&, const DataConfig&,
                                              u32 vocab_size, u32 sequence_length, u64 seed,
                                              const DataPlace&);

}  // namespace tidepool
