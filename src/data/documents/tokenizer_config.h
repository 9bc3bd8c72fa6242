// What lies beside tokenizer.json in a model directory and concerns data: special tokens by name, chat
// templates.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

inline constexpr u64 template_bytes_max = mib;  // of a chat template

struct TokenizerConfig {
  std::map<std::string, std::string> special_tokens;  // "bos_token": "<s>"
  struct Token {
    std::string file;
    std::string text;
    std::optional<u32> id;  // where the file gives one
  };
  // All that the files name, special_tokens too: the library adds to the tokenizer what it does not know.
  std::vector<Token> tokens;
  // What tokenizer_config.json says of BOS, EOS and spaces around a text.
  struct FrameFlags {
    std::string file;
    std::string tokenizer_class;  // "LlamaTokenizerFast"; empty: not said
    std::optional<bool> add_bos_token;
    std::optional<bool> add_eos_token;
    std::optional<bool> legacy;
  };
  FrameFlags frame;
  struct Source {
    std::string name;  // where it stands, for errors
    std::string text;
  };
  std::map<std::string, Source> templates;  // "default", "tool_use"; empty: there is none
};

// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja and
// additional_chat_templates/NAME.jinja of `directory`, as far as they are there; the last two go before
// templates inside the first. ErrorKind::bad_input naming file and key.
Result<TokenizerConfig> read_tokenizer_config(const std::string& directory);

}  // namespace tidepool
