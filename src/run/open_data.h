// The data of a config, with cores to tokenize it on and a line that says how far that is.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/batches/dataset.h"
#include "data/batches/held_out_files.h"
#include "data/files/source_files.h"

namespace tidepool {

struct OpenData {
  bool quiet = false;       // nothing is printed while it takes its time
  bool kept_model = false;  // with_kept_model: of what goes on from a run
  DataUse use = DataUse::training;
};
// As Dataset::open. Documents are tokenized on all threads of machine.threads.
Result<std::unique_ptr<Dataset>> open_data(const Config&, const OpenData& = {});

// Looks at the files of the data: config.data.rows_are_shared says whether any of them holds documents. If
// none does, no plan makes room for several in a sequence. Files that cannot be looked at leave it open:
// whoever opens them tells why. `kept_model`: as of OpenData.
void look_at_rows(Config&, bool kept_model = false, HeldOutAlone = HeldOutAlone::no);

// Opens data.validation alone. REQUIRES: it is not empty.
Result<HeldOutFiles> open_held_out(const Config&, const OpenData& = {});

// Where a config's documents are tokenized; the caller adds pool and progress.
DataPlace data_place(const Config&);

}  // namespace tidepool
