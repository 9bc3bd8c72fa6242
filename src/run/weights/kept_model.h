// What a run keeps of its model directory, in RUN/model-files: config.json, the tokenizer, the chat template,
// how to generate. Checkpoints carry it along; and a run goes on where the model directory has gone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "huggingface/directory/carried.h"

namespace tidepool {

inline constexpr u64 kept_bytes_max = gib;  // of a file that a run keeps

// Makes RUN/model-files of the model directory, data.tokenizer and data.chat_template, which take the place
// of the directory's own; and in it checksums.json, which lists them. REQUIRES: output.dir is locked.
// ErrorKind::io, or bad_input where one of them is a link that leads elsewhere.
Result<void> keep_model(const Config&);

// The same for a run that goes on: what it kept stays as it is, and each file is compared with the list. A
// damaged one is put back from the newest checkpoint that holds it whole, else from the model directory if
// that still has the same bytes. A run of an older Tidepool, which has no list, is compared with its newest
// good checkpoint, and gets one. Returns a line for each file that was put back. REQUIRES: output.dir is
// locked. ErrorKind::corrupt_checkpoint where no whole copy is left.
Result<std::vector<std::string>> mend_kept_model(const Config&);

// Files of RUN/model-files that checkpoints carry, with their hashes. Not config.json.
Result<std::vector<CarriedFile>> files_for_checkpoints(const Config&);

// A line for each file of the model directory, data.tokenizer and data.chat_template that is there and is not
// what the run kept of it: damaged or changed since.
std::vector<std::string> changes_since_kept(const Config&);

// Compares a run's model-files, all or only one, with the list of what was kept. No list or no files: no
// error. ErrorKind::corrupt_checkpoint.
Result<void> check_kept_model(const std::string& run_dir, std::string_view only = "");

// config.json of where the run's model came from; empty: it did not come from a directory.
Result<std::string> kept_model_config(const Config&);

// The config with what the run kept in the place of directories and files that are gone: model,
// data.tokenizer, data.chat_template. The model's weights are not kept. For what goes on from the run only:
// in a config of a new one, what is not there is mistyped.
Config with_kept_model(Config);

}  // namespace tidepool
