// CutRule decides where a text may be cut so that its parts, encoded separately, give the same ids as the
// whole. Cuts lie between a letter and a space (or line feed) behind it. The content of tokenizer.json
// decides whether such cuts are safe.
#pragma once

#include <string_view>

#include "base/types.h"
#include "huggingface/tokenizer/added_tokens.h"

namespace tidepool {

class CutRule {
 public:
  void forbid() { before_space_ = before_line_feed_ = false; }
  void only_before_space() { before_line_feed_ = false; }
  // A prefix is added to every piece between two tokens, so a cut must not hide the end of a token.
  void pieces_get_a_front() { pieces_get_a_front_ = true; }
  // Adapts the rule to an added token. `content` is the text to search for.
  void consider(const AddedToken&, std::string_view content);

  bool any() const { return before_space_ || before_line_feed_; }
  // RETURNS: the last cut inside `text`; 0 if there is none.
  size_t last_cut(std::string_view text) const;

 private:
  bool before_space_ = true;
  bool before_line_feed_ = true;
  bool pieces_get_a_front_ = false;
};

// Properties of a pattern, known by its exact text.
enum class KnownPattern : u8 {
  unknown,
  harmless,  // no match holds a letter and then a space or line feed, or depends on text behind a letter
  cutting,   // harmless, and a match always ends between the two
};
KnownPattern known_pattern(std::string_view pattern);

// GPT-2's pattern: a ByteLevel pre-tokenizer splits by it.
extern const std::string_view gpt2_pattern;

}  // namespace tidepool
