// Which stretches of a text became which others when it was rewritten: the way back from a token to the bytes
// it stands for. Kept only where somebody asks (Tokenizer::encode_part with places).
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.h"
#include "huggingface/tokenizer/regex.h"

namespace tidepool {

// Bytes of a text that a token stands for. Empty where it stands for none (BOS, a space put in front): it
// then belongs to what follows.
struct TokenBytes {
  u32 begin = 0, end = 0;
  bool operator==(const TokenBytes&) const = default;
};

class Rewriting {
 public:
  void clear() { changes_.clear(); }
  // `from` of the text before became `to` of the text behind. Ascending; what lies between two is the same.
  void add(Match from, Match to) { changes_.push_back({from, to}); }

  // Where the byte at `at` of the new text came from: of a changed stretch, its begin.
  size_t begin_of(size_t at) const {
    const auto after = std::ranges::upper_bound(changes_, at, {}, [](const Change& c) { return c.to.begin; });
    if (after == changes_.begin()) return at;
    const Change& change = *(after - 1);
    return at < change.to.end ? change.from.begin : change.from.end + (at - change.to.end);
  }
  // Where what ends at `at` of the new text ended: of a changed stretch, its end.
  size_t end_of(size_t at) const {
    const auto after = std::ranges::lower_bound(changes_, at, {}, [](const Change& c) { return c.to.begin; });
    if (after == changes_.begin()) return at;
    const Change& change = *(after - 1);
    return at <= change.to.end ? change.from.end : change.from.end + (at - change.to.end);
  }

 private:
  struct Change {
    Match from, to;
  };
  std::vector<Change> changes_;
};

}  // namespace tidepool
