// open_speech() encodes the prompt and opens the decoder of the answer: with the tokenizer that a checkpoint
// carries, or as bytes.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "data/documents/open_encoder.h"

namespace tidepool {

struct Speech {
  OpenedEncoder encoder;
  std::vector<u32> prompt;  // never empty
  std::string shown;        // text to print before the answer; empty for a chat
  std::vector<u32> ends;    // end tokens: ids that end the answer
};

// `checkpoint`: a directory with carried files. Tokenizer and template named in section data of the config
// come before these.
// ErrorKind::usage if a chat is requested and there is no template, or if there is no tokenizer and the
// vocabulary is too small for bytes.
Result<Speech> open_speech(const Config&, const GenerateConfig&, const std::string& checkpoint);

}  // namespace tidepool
