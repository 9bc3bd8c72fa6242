// The tokenizer and the chat template that a config names, or its model directory has.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "data/chat_template.h"
#include "data/text_encoder.h"

namespace tidepool {

struct OpenedEncoder {
  std::unique_ptr<const TextEncoder> text;
  std::unique_ptr<const ChatTemplate> chat;  // may be null
  std::optional<u32> end_token;
  std::string name;      // for messages: the tokenizer's file
  std::string identity;  // what tokens follow from
};

// Whether text is for a tokenizer; without, its bytes are tokens. ErrorKind::bad_input where data.tokenizer
// is not there.
Result<bool> has_tokenizer(const DataConfig&, const std::string& model_directory);
Result<OpenedEncoder> open_encoder(const DataConfig&, const std::string& model_directory);

}  // namespace tidepool
