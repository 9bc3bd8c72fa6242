// A tokenizer.json as Hugging Face writes it: text to token ids and back. What the file may hold, and what is
// refused, is in docs/tokenizer.md.
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
  added,  // with what the post-processor puts around it (BOS ...)
};
enum class SkipSpecial : u8 { no, yes };

// A text, or one of the parts that it was cut into at places which Tokenizer::cut found: parts encoded one by
// one give the ids of the whole. Views stay the caller's.
struct TextPart {
  std::string_view text;
  bool first = true;
  bool last = true;
};

// Thread-safe: every method may be called by any thread at any time.
class Tokenizer {
 public:
  // ErrorKind::bad_input naming file, place in the JSON and reason; what is not supported by name.
  static Result<std::unique_ptr<Tokenizer>> open(const std::string& tokenizer_json);
  // The same from memory; `name` stands in errors where the file's would.
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view json, const std::string& name);
  ~Tokenizer();

  // Appends the ids of the text to `out`. Added tokens in it are recognised. ErrorKind::bad_input where the
  // text is not UTF-8 (with the byte offset) or a pattern gives up on it; `out` then holds part of them.
  Result<void> encode(std::string_view text, Special special, std::vector<u32>& out) const {
    return encode_part({.text = text}, special, out);
  }
  // `places`, where it is not null, gets as many as `out`: the bytes of part.text that each id stands for.
  Result<void> encode_part(const TextPart&, Special, std::vector<u32>& out,
                           std::vector<TokenBytes>* places = nullptr) const;

  // How many bytes at the beginning of `text` may be a part of their own whatever follows them; the most that
  // is known to be safe, 0 if no such place is known. Whole characters, and some of `text` always remains.
  size_t cut(std::string_view text) const;
  // False: cut() is 0 for every text, since this file's pattern may look anywhere.
  bool can_cut() const;

  // Ids that the vocabulary does not have are passed over.
  std::string decode(std::span<const u32> ids, SkipSpecial) const;

  std::optional<u32> id_of(std::string_view token) const;
  std::optional<u32> added_id_of(std::string_view token) const;  // none: no added token
  std::string_view token(u32 id) const;  // as in the vocabulary; empty where there is none
  bool is_special(u32 id) const;
  u32 vocab_size() const;  // with added tokens: highest id + 1

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool
