// Text on its way into a model and out of it: through the tokenizer that a checkpoint carries, or as bytes.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "data/documents/open_encoder.h"

namespace tidepool {

struct Speech {
  OpenedEncoder encoder;
  std::vector<u32> prompt;  // never empty
  std::string shown;        // what stands before the answer; of a chat nothing
  std::vector<u32> ends;    // ids after which all is said
};

// `checkpoint`: a directory with what it carries along, before which goes what section data of the config
// names. ErrorKind::usage where a chat is asked for and there is no template, or a vocabulary without
// tokenizer has no room for bytes.
Result<Speech> open_speech(const Config&, const GenerateConfig&, const std::string& checkpoint);

}  // namespace tidepool
