// Walk passes one text through the steps of a tokenizer.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/bpe.h"
#include "huggingface/tokenizer/normalizer.h"
#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

// Scratch memory of one thread for encoding.
struct EncodeState {
  MatchState match;
  NormalState normal;
  std::vector<SplitState> split;  // one per step
  BpeState bpe;
};

class Walk {
 public:
  // `text` is the text that places refer to. `places`, if not null, gets one element per id in `out`.
  Walk(std::span<const std::unique_ptr<Splitter>> splitters, const Bpe& bpe, EncodeState& state,
       std::string_view text, std::vector<u32>& out, std::vector<TokenBytes>* places);

  // Starts a stretch of the text between two tokens. `normal` is its normalized form; pass() takes pieces of
  // `normal`.
  void begin(std::string_view raw, std::string_view normal);
  bool pass(Piece piece, size_t step = 0);
  // A token for `bytes`: a part of the text, or of `normal` of the last begin().
  void token(u32 id, std::string_view bytes);
  // Ids that stand for no bytes, at position `at`.
  void frame(std::span<const u32> ids, size_t at);

  // Reasons why pass() returned false.
  bool gave_up = false;        // a pattern takes too many steps
  bool word_too_long = false;  // exceeds Bpe's limit

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
