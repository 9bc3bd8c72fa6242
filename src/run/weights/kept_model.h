// kept_model copies small files of a run's model directory to RUN/model-files: config.json, the tokenizer,
// the chat template, and the generation config. Checkpoints carry these files, and a run can resume after the
// model directory is gone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "huggingface/directory/carried.h"

namespace tidepool {

inline constexpr u64 kept_bytes_max = gib;  // maximum size of a kept file

// Copies to RUN/model-files from the model directory; data.tokenizer and data.chat_template replace the
// directory's own files. Writes checksums.json, which lists the files.
// REQUIRES: output.dir is locked.
// ErrorKind::io; bad_input if a file is a link out of its directory.
Result<void> keep_model(const Config&);

// Verifies the model-files of a resumed run against checksums.json. Puts a damaged file back from the newest
// checkpoint that holds it undamaged, else from the model directory if the bytes there are still the same. A
// run of an older Tidepool has no list: its files are compared with its newest good checkpoint, and it gets a
// list.
// REQUIRES: output.dir is locked.
// RETURNS: a line for each file that was put back.
// ErrorKind::corrupt_checkpoint if no undamaged copy is left.
Result<std::vector<std::string>> mend_kept_model(const Config&);

// RETURNS: the files of RUN/model-files that checkpoints carry, with their hashes; without config.json.
Result<std::vector<CarriedFile>> files_for_checkpoints(const Config&);

// RETURNS: a line for each file of the model directory, data.tokenizer and data.chat_template that differs
// from the run's kept copy: it was damaged or changed since. Missing files are skipped.
std::vector<std::string> changes_since_kept(const Config&);

// Verifies a run's model-files, or the file `only`, against checksums.json. A missing list or directory
// is no error.
// ErrorKind::corrupt_checkpoint if a file is damaged.
Result<void> check_kept_model(const std::string& run_dir, std::string_view only = "");

// RETURNS: the kept config.json of the run's model; empty: the model does not come from a directory.
Result<std::string> kept_model_config(const Config&);

// RETURNS: the config with kept files in the place of missing ones: model, data.tokenizer,
// data.chat_template. The model's weights are not kept. Only for commands that continue from the run: in a
// new run's config, a missing path is a typing error.
Config with_kept_model(Config);

}  // namespace tidepool
