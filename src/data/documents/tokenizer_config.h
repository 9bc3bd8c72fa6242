// TokenizerConfig holds the data-related content of the files beside tokenizer.json: special tokens by name,
// and chat templates.
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
  std::map<std::string, std::string> special_tokens;  // "bos_token": "<s>", also names of the user's own
  struct Token {
    std::string file;
    std::string text;
    std::optional<u32> id;  // if the file has one
  };
  // All tokens named in the files, including special_tokens. The library adds unknown ones to the tokenizer.
  std::vector<Token> tokens;
  // Keys of tokenizer_config.json about BOS, EOS and spaces around a text.
  struct FrameFlags {
    std::string file;
    std::string tokenizer_class;  // "LlamaTokenizerFast"; empty: not given
    std::optional<bool> add_bos_token;
    std::optional<bool> add_eos_token;
    std::optional<bool> legacy;
  };
  FrameFlags frame;
  struct Source {
    std::string name;  // its place, for errors
    std::string text;
  };
  std::map<std::string, Source> templates;  // "default", "tool_use"; empty: no template
};

// Reads those of tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja and
// additional_chat_templates/NAME.jinja in `directory` that exist. Template files override templates inside
// tokenizer_config.json.
// Error: bad_input, naming file and key.
Result<TokenizerConfig> read_tokenizer_config(const std::string& directory);

}  // namespace tidepool
