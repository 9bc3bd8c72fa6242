// Tokenizer reads a tokenizer.json in Hugging Face's format and converts text to token ids and back.
// docs/tokenizer.md lists supported and refused content.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "huggingface/tokenizer/rewriting.h"

namespace tidepool {

enum class Special : u8 {
  none,   // the text alone
  added,  // with the special tokens of the post-processor (BOS ...)
};
enum class SkipSpecial : u8 { no, yes };

// A whole text, or a part of it. Parts are cut at places found by Tokenizer::cut; encoded separately they
// give the ids of the whole. The text stays the caller's.
struct TextPart {
  std::string_view text;
  bool first = true;
  bool last = true;
};

// THREADS: any may call every method at any time.
class Tokenizer {
 public:
  // Opens a file.
  // Error: bad_input, naming file, place in the JSON and reason; unsupported content is named.
  static Result<std::unique_ptr<Tokenizer>> open(const std::string& tokenizer_json);
  // The same from memory; `name` replaces the file name in errors.
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view json, const std::string& name);
  ~Tokenizer();

  // Appends the ids of the text to `out`. Recognises added tokens in it.
  // Error: bad_input if the text is not UTF-8 (with the byte offset) or a pattern gives up; `out` then holds
  // part of the ids.
  Result<void> encode(std::string_view text, Special special, std::vector<u32>& out) const {
    return encode_part({.text = text}, special, out);
  }
  // `places`, if not null, gets one element per id: the bytes of part.text that the id stands for.
  Result<void> encode_part(const TextPart&, Special, std::vector<u32>& out,
                           std::vector<TokenBytes>* places = nullptr) const;

  // RETURNS: the length of the longest beginning of `text` that is known to be safe to encode as a separate
  // part, whatever follows; 0 if none is known. It ends between characters and is shorter than `text`.
  size_t cut(std::string_view text) const;
  // RETURNS: false if cut() is always 0, because this file's pattern may look anywhere.
  bool can_cut() const;

  // Skips ids that are not in the vocabulary.
  std::string decode(std::span<const u32> ids, SkipSpecial) const;

  std::optional<u32> id_of(std::string_view token) const;
  std::optional<u32> added_id_of(std::string_view token) const;  // none: not an added token
  std::string_view token(u32 id) const;                          // as in the vocabulary; empty: no such id
  bool is_special(u32 id) const;
  u32 vocab_size() const;  // with added tokens: highest id + 1

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool
