// Tokens to text as they come, one by one.
#pragma once

#include <string>
#include <vector>

#include "data/documents/text_encoder.h"

namespace tidepool {

// Together the parts are what the tokens after `before` add to a text that ends with `before`: a tokenizer
// writes the first word of a text otherwise than later ones. A character that no token completes yet is held
// back.
class DecodeStream {
 public:
  // `encoder` must outlive it.
  DecodeStream(const TextEncoder& encoder, std::vector<u32> before);

  // What can be said by now; may be empty. Ids that the encoder does not have are passed over.
  std::string push(u32 id);
  // What was held back, as it is.
  std::string finish();

 private:
  std::string text(size_t end) const;
  std::string take(const std::string& all, size_t known);

  const TextEncoder& encoder_;
  std::vector<u32> ids_;
  size_t begin_;  // of what is decoded: a few tokens before, for their effect on the next
  size_t said_;   // ids that have been said
};

}  // namespace tidepool
