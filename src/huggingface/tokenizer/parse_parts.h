// The parts of a tokenizer.json, each from its own place in the file. Errors are ErrorKind::bad_input and
// name file, place and reason; a type or an option that is not supported is refused by name.
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

inline constexpr std::string_view low_line = "\u2581";  // what SentencePiece writes for a space

struct ParsedNormalizer {
  Normalizer steps;
  bool only_nfc = true;     // no step but NFC
  bool only_spaces = true;  // no step but those that put text in front or make every space a ▁

  Result<void> add(const JsonNode& rule, std::unique_ptr<NormalizerStep>);
};
Result<ParsedNormalizer> parse_normalizer(const std::optional<JsonNode>&);

struct ParsedPreTokenizer {
  std::vector<std::unique_ptr<Splitter>> steps;
  bool byte_level = false;         // ends in the byte alphabet, which the model then takes care of
  bool cuts_letter_space = false;  // there is always a cut between a letter and a space or line feed
  bool harmless = true;            // and whatever is cut off there changes nothing elsewhere
  bool only_before_space = false;  // it is so before spaces, not before line feeds
  bool low_line = false;           // spaces become ▁, and nothing else happens
};
Result<ParsedPreTokenizer> parse_pre_tokenizer(const std::optional<JsonNode>&);

struct ParsedModel {
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
  BpeOptions options;  // byte_level is not known here
};
Result<ParsedModel> parse_model(const JsonNode&);

// With the ids that Hugging Face's tokenizers give them, which the file's must be.
Result<std::vector<AddedToken>> parse_added_tokens(const std::optional<JsonNode>&, const Vocabulary&);

// What stands before and behind the text's own ids.
struct Frame {
  std::vector<u32> before, behind;
};
Result<Frame> parse_post_processor(const std::optional<JsonNode>&);

Result<Decoder> parse_decoder(const std::optional<JsonNode>&);

// {"String": "..."} or {"Regex": "..."}.
struct ParsedPattern {
  std::unique_ptr<Matcher> matcher;
  std::string text;
  bool regex = false;
};
Result<ParsedPattern> parse_pattern(const JsonNode&);

// "type": "...", refused in words if it is none of those that this part of a file may have.
Error unsupported_type(const JsonNode&, std::string_view type, std::string_view supported);

inline constexpr u32 token_id_max = (1u << 24) - 1;
inline constexpr u32 nested_sequences_max = 8;

// A rule that puts 100,000 characters in front of each piece of a text would take that times the pieces.
inline constexpr size_t rule_text_bytes_max = 1024;
inline constexpr size_t rules_max = 256;       // of a normalizer, pre-tokenizer or decoder; ids around a text
inline constexpr u64 decoder_growth_max = 64;  // by all Replace rules of a decoder together
Result<void> check_rule_text(const JsonNode&, std::string_view text);
Result<void> check_rule_count(const JsonNode& rule, size_t before);

}  // namespace tidepool
