// The tokenizer and the chat template that a config names, or its model directory has.
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
  std::optional<u32> end_token;              // none: bytes, or no file says which
  std::string name;                          // for messages: the tokenizer's file
  std::string identity;                      // what tokens follow from
  std::vector<std::string> notes;            // on chats
};

// Whether text is for a tokenizer; without, its bytes are tokens.
bool has_tokenizer(const DataConfig&, const std::string& model_directory);
// That bytes are not taken for tokens because a tokenizer cannot be read. ErrorKind::bad_input: the model
// directory has one in another form (tokenizer.model, vocab.json), a tokenizer.json that is no file, or
// only what stands beside one.
// REQUIRES: !has_tokenizer().
Result<void> check_no_other_tokenizer(const std::string& model_directory);

// `no`: nothing goes through a template, so it is not opened: one that is not supported is in nobody's way.
enum class ChatTemplateUse : u8 { no, yes };
// ErrorKind::bad_input naming the file, the key that names it, and what to do.
Result<OpenedEncoder> open_encoder(const DataConfig&, const std::string& model_directory, ChatTemplateUse);

}  // namespace tidepool
