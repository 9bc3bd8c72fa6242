// Decoder turns tokens back into text: a list of steps that rewrite the tokens' spellings, which are then
// joined.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

// Immutable.
// THREADS: any, at any time.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens, MatchState&) const = 0;
};

using Decoder = std::vector<std::unique_ptr<DecoderStep>>;

struct StripCounts {
  u32 start = 0;  // characters to strip at most at the start of each token
  u32 stop = 0;   // and at its end
};

std::unique_ptr<DecoderStep> decode_byte_level();
std::unique_ptr<DecoderStep> decode_replace(std::unique_ptr<Matcher>, std::string content);
std::unique_ptr<DecoderStep> decode_byte_fallback();
std::unique_ptr<DecoderStep> decode_fuse();
std::unique_ptr<DecoderStep> decode_strip(std::string character, StripCounts);
std::unique_ptr<DecoderStep> decode_metaspace(std::string replacement, bool drop_in_first);

// Bytes as text. Invalid UTF-8 becomes U+FFFD, one per longest incomplete character, as the Unicode Standard
// recommends (section 3.9, "U+FFFD Substitution of Maximal Subparts").
std::string utf8_or_replaced(std::string_view bytes);

}  // namespace tidepool
