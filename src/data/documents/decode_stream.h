// DecodeStream converts tokens to text one by one.
#pragma once

#include <string>
#include <vector>

#include "data/documents/text_encoder.h"

namespace tidepool {

// The pieces together are the text that the tokens add to a text ending with `before`. (A tokenizer may write
// the first word of a text differently from later ones.) An incomplete character is held back until further
// tokens complete it.
class DecodeStream {
 public:
  // REQUIRES: `encoder` outlives the stream.
  DecodeStream(const TextEncoder& encoder, std::vector<u32> before);

  // RETURNS: the text that is known after this token; may be empty. Skips ids that the encoder does not have.
  std::string push(u32 id);
  // RETURNS: the text that was held back, complete or not.
  std::string finish();

 private:
  std::string text(size_t end) const;
  std::string take(const std::string& all, size_t known);

  const TextEncoder& encoder_;
  std::vector<u32> ids_;
  size_t begin_;  // first token that is decoded: a few tokens early, because they affect the next
  size_t said_;   // tokens whose text was returned
};

}  // namespace tidepool
