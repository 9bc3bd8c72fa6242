// Opens the tokenizer and chat template that a config names, or that its model directory has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/documents/chat_template.h"
#include "data/documents/text_encoder.h"

namespace tidepool {

struct OpenedEncoder {
  std::unique_ptr<const TextEncoder> text;
  std::unique_ptr<const ChatTemplate> chat;  // may be null
  std::optional<u32> end_token;              // none: bytes, or no file names one
  std::string name;                          // for messages: path of the tokenizer
  std::string identity;                      // everything that tokens depend on
  std::vector<std::string> notes;            // about chats
};

// True if text goes through a tokenizer; if false, its bytes are the tokens.
bool has_tokenizer(const DataConfig&, const std::string& model_directory);
// Checks that no tokenizer is ignored, which would train on bytes by mistake.
// Error: bad_input if the model directory has a tokenizer in another format (tokenizer.model, vocab.json), a
// tokenizer.json that is not a file, or only files that accompany a tokenizer.
// REQUIRES: !has_tokenizer().
Result<void> check_no_other_tokenizer(const std::string& model_directory);

// `no`: no document needs a template. The template is not opened, so an unsupported one is no error.
enum class ChatTemplateUse : u8 { no, yes };
// Error: bad_input, naming the file, the key that names it, and what to do.
Result<OpenedEncoder> open_encoder(const DataConfig&, const std::string& model_directory, ChatTemplateUse);

}  // namespace tidepool
