// What a run keeps of its model directory, in RUN/model-files: config.json, the tokenizer, the chat template,
// how to generate. Checkpoints carry it along; and a run goes on where the model directory has gone.
#pragma once

#include <string>

#include "config/config.h"
#include "tidepool/result.h"

namespace tidepool {

// Makes RUN/model-files of the model directory, data.tokenizer and data.chat_template, which take the place
// of the directory's own. A run that goes on and has them leaves them as they are. REQUIRES: output.dir is
// locked. ErrorKind::io.
enum class Kept : unsigned char { anew, as_it_is };
Result<void> keep_model(const Config&, Kept);

// config.json of where the run's model came from; empty: it did not come from a directory.
Result<std::string> kept_model_config(const Config&);

// The config with what the run kept in the place of directories and files that are gone: model,
// data.tokenizer, data.chat_template. The model's weights are not kept. For what goes on from the run only:
// in a config of a new one, what is not there is mistyped.
Config with_kept_model(Config);

}  // namespace tidepool
