// open_data() opens the data of a config: it tokenizes on a pool of cores and shows its progress in a status
// line.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/batches/dataset.h"
#include "data/batches/held_out_files.h"
#include "data/files/source_files.h"

namespace tidepool {

struct OpenData {
  bool quiet = false;       // true: print no progress
  bool kept_model = false;  // true: fall back to the run's model-files, see with_kept_model()
  DataUse use = DataUse::training;
};
// Contract as of Dataset::open. Tokenizes documents on all threads of machine.threads.
Result<std::unique_ptr<Dataset>> open_data(const Config&, const OpenData& = {});

// Sets config.data.rows_are_shared: true if any data file holds documents. If false, plans reserve no memory
// for several documents per sequence. Leaves it unset if the files cannot be read; opening them later reports
// the error. `kept_model`: as OpenData::kept_model.
void look_at_rows(Config&, bool kept_model = false, HeldOutAlone = HeldOutAlone::no);

// Opens data.validation alone.
// REQUIRES: data.validation is not empty.
Result<HeldOutFiles> open_held_out(const Config&, const OpenData& = {});

// RETURNS: cache and model directory for tokenizing a config's documents. The caller adds pool and progress.
DataPlace data_place(const Config&);

}  // namespace tidepool
