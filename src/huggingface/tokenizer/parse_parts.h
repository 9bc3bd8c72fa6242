// Parsers for the parts of a tokenizer.json.
// Error: bad_input, naming file, place and reason; an unsupported type or option is named.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "huggingface/tokenizer/added_tokens.h"
#include "huggingface/tokenizer/bpe.h"
#include "huggingface/tokenizer/cut_rule.h"
#include "huggingface/tokenizer/decoder.h"
#include "huggingface/tokenizer/json_node.h"
#include "huggingface/tokenizer/normalizer.h"
#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

inline constexpr std::string_view low_line = "\u2581";  // SentencePiece's replacement of a space

struct ParsedNormalizer {
  Normalizer steps;
  bool only_nfc = true;     // all steps are NFC
  bool only_spaces = true;  // all steps add a prefix or replace every space by ▁

  Result<void> add(const JsonNode& rule, std::unique_ptr<NormalizerStep>);
};
Result<ParsedNormalizer> parse_normalizer(const std::optional<JsonNode>&);

struct ParsedPreTokenizer {
  std::vector<std::unique_ptr<Splitter>> steps;
  bool byte_level = false;         // ends with the byte alphabet, which the model handles itself
  bool cuts_letter_space = false;  // there is always a cut between a letter and a space or line feed
  bool harmless = true;            // and cutting there changes no ids elsewhere
  bool only_before_space = false;  // the two hold before spaces, not before line feeds
  bool low_line = false;           // only replaces spaces by ▁
};
Result<ParsedPreTokenizer> parse_pre_tokenizer(const std::optional<JsonNode>&);

struct ParsedModel {
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
  BpeOptions options;  // byte_level is not known here
};
Result<ParsedModel> parse_model(const JsonNode&);

// Reads added tokens.
// Error: if an id of the file is not the id that Hugging Face's tokenizers would give the token.
Result<std::vector<AddedToken>> parse_added_tokens(const std::optional<JsonNode>&, const Vocabulary&);

// Special ids before and behind the ids of the text.
struct Frame {
  std::vector<u32> before, behind;
};
Result<Frame> parse_post_processor(const std::optional<JsonNode>&);

Result<Decoder> parse_decoder(const std::optional<JsonNode>&);

// Reads {"String": "..."} or {"Regex": "..."}.
struct ParsedPattern {
  std::unique_ptr<Matcher> matcher;
  std::string text;
  bool regex = false;
};
Result<ParsedPattern> parse_pattern(const JsonNode&);

// Error for a "type" that this part of the file does not support.
Error unsupported_type(const JsonNode&, std::string_view type, std::string_view supported);

inline constexpr u32 token_id_max = (1u << 24) - 1;
inline constexpr u32 nested_sequences_max = 8;

// Limit for texts in rules: 100,000 characters in front of each piece would take that many bytes per piece.
inline constexpr size_t rule_text_bytes_max = 1024;
inline constexpr size_t rules_max = 256;       // of a normalizer, pre-tokenizer or decoder; ids around a text
inline constexpr u64 decoder_growth_max = 64;  // all Replace rules of a decoder together
Result<void> check_rule_text(const JsonNode&, std::string_view text);
Result<void> check_rule_count(const JsonNode& rule, size_t before);

}  // namespace tidepool
