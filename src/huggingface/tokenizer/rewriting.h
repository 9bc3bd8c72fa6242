// Rewriting maps positions of a rewritten text back to the text before. It leads from a token to the bytes
// that the token stands for. Recorded only on request (Tokenizer::encode_part with `places`).
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.h"
#include "huggingface/tokenizer/regex.h"

namespace tidepool {

// Bytes of a text that a token stands for. Empty for a token without any (BOS, an added space); `begin` then
// is where the following text begins.
struct TokenBytes {
  u32 begin = 0, end = 0;
  bool operator==(const TokenBytes&) const = default;
};

class Rewriting {
 public:
  void clear() { changes_.clear(); }
  // Records that `from` of the old text became `to` of the new text. Text between two changes is the same.
  // REQUIRES: ascending order.
  void add(Match from, Match to) { changes_.push_back({from, to}); }

  // Maps a position of the new text to the old text; inside a changed stretch, to the stretch's begin.
  size_t begin_of(size_t at) const {
    const auto after = std::ranges::upper_bound(changes_, at, {}, [](const Change& c) { return c.to.begin; });
    if (after == changes_.begin()) return at;
    const Change& change = *(after - 1);
    return at < change.to.end ? change.from.begin : change.from.end + (at - change.to.end);
  }
  // Maps an end in the new text to the old text; inside a changed stretch, to the stretch's end.
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
