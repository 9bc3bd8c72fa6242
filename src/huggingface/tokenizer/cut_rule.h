// Where a text may be cut so that its parts, encoded one by one, give the ids of the whole. The places are
// between a letter and a space (or line feed) behind it; whether that is right follows from what the file
// holds.
#pragma once

#include <string_view>

#include "base/types.h"
#include "huggingface/tokenizer/added_tokens.h"

namespace tidepool {

class CutRule {
 public:
  void forbid() { before_space_ = before_line_feed_ = false; }
  void only_before_space() { before_line_feed_ = false; }
  // Text is put in front of every piece between two tokens, so where a token ends must be seen.
  void pieces_get_a_front() { pieces_get_a_front_ = true; }
  // A token that is looked for in text, as it is looked for.
  void consider(const AddedToken&, std::string_view content);

  bool any() const { return before_space_ || before_line_feed_; }
  // The last place inside `text`; 0 if there is none.
  size_t last_cut(std::string_view text) const;

 private:
  bool before_space_ = true;
  bool before_line_feed_ = true;
  bool pieces_get_a_front_ = false;
};

// What is known of a pattern, from its exact text.
enum class KnownPattern : u8 {
  unknown,
  harmless,  // no match holds a letter and then a space or line feed, nor depends on what is behind a letter
  cutting,   // harmless, and there is always a match's end between the two
};
KnownPattern known_pattern(std::string_view pattern);

// What a ByteLevel pre-tokenizer splits by: GPT-2's.
extern const std::string_view gpt2_pattern;

}  // namespace tidepool
