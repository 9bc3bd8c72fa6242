// One text on its way through the steps of a tokenizer.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/bpe.h"
#include "huggingface/tokenizer/normalizer.h"
#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

// What one thread needs to encode.
struct EncodeState {
  MatchState match;
  NormalState normal;
  std::vector<SplitState> split;  // by step
  BpeState bpe;
};

class Walk {
 public:
  // `text`: that places are of. `places` may be null; else it gets as many as `out` gets ids.
  Walk(std::span<const std::unique_ptr<Splitter>> splitters, const Bpe& bpe, EncodeState& state,
       std::string_view text, std::vector<u32>& out, std::vector<TokenBytes>* places);

  // A stretch of the text between two tokens, and what the normalizer made of it: pass() takes pieces of
  // that.
  void begin(std::string_view raw, std::string_view normal);
  bool pass(Piece piece, size_t step = 0);
  // A token that stands for `bytes`: of the text, or of what begin() got as normal.
  void token(u32 id, std::string_view bytes);
  // Ids that stand for nothing, at `at`.
  void frame(std::span<const u32> ids, size_t at);

  // Why pass() returned false.
  bool gave_up = false;        // a pattern takes too many steps
  bool word_too_long = false;  // for Bpe

 private:
  class Next;
  TokenBytes place_of(std::string_view word, size_t begin, size_t end) const;

  const std::span<const std::unique_ptr<Splitter>> splitters_;
  const Bpe& bpe_;
  EncodeState& state_;
  const std::string_view text_;
  std::vector<u32>& out_;
  std::vector<TokenBytes>* const places_;
  std::string_view raw_, normal_;
  std::vector<u32> ends_;
};

}  // namespace tidepool
