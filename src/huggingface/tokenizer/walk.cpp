#include "huggingface/tokenizer/walk.h"

#include <functional>

namespace tidepool {

namespace {

bool holds(std::string_view buffer, const char* at) {
  return std::less_equal<>()(buffer.data(), at) && std::less<>()(at, buffer.data() + buffer.size());
}

}  // namespace

class Walk::Next final : public PieceSink {
 public:
  Next(Walk& walk, size_t step) : walk_(walk), step_(step) {}
  bool take(Piece piece) override { return walk_.pass(piece, step_); }

 private:
  Walk& walk_;
  size_t step_;
};

Walk::Walk(std::span<const std::unique_ptr<Splitter>> splitters, const Bpe& bpe, EncodeState& state,
           std::string_view text, std::vector<u32>& out, std::vector<TokenBytes>* places)
    : splitters_(splitters), bpe_(bpe), state_(state), text_(text), out_(out), places_(places) {
  state_.normal.traced = places_ != nullptr;
  for (SplitState& split : state_.split) split.traced = places_ != nullptr;
}

void Walk::begin(std::string_view raw, std::string_view normal) {
  raw_ = raw;
  normal_ = normal;
}

bool Walk::pass(Piece piece, size_t step) {
  if (step < splitters_.size()) {
    Next next(*this, step + 1);
    return splitters_[step]->split(piece, state_.split[step], state_.match, next, gave_up);
  }
  ends_.clear();
  word_too_long = !bpe_.encode(piece.text, state_.bpe, out_, places_ ? &ends_ : nullptr);
  if (!places_ || word_too_long) return !word_too_long;
  size_t begin = 0;
  for (const u32 end : ends_) {
    places_->push_back(place_of(piece.text, begin, end));
    begin = end;
  }
  return true;
}

void Walk::token(u32 id, std::string_view bytes) {
  out_.push_back(id);
  if (places_) places_->push_back(place_of(bytes, 0, bytes.size()));
}

void Walk::frame(std::span<const u32> ids, size_t at) {
  out_.insert(out_.end(), ids.begin(), ids.end());
  if (places_) places_->insert(places_->end(), ids.size(), {static_cast<u32>(at), static_cast<u32>(at)});
}

// Maps a word back through every step that rewrote it. A step that passed its piece on unchanged recorded
// nothing: the word then lies in the buffer of an earlier step.
TokenBytes Walk::place_of(std::string_view word, size_t begin, size_t end) const {
  const auto at_of = [&](std::string_view buffer) {
    const size_t at = static_cast<size_t>(word.data() - buffer.data());
    begin += at;
    end += at;
  };
  for (size_t step = splitters_.size(); step-- > 0;) {
    const SplitState& split = state_.split[step];
    if (!holds(split.text, word.data())) continue;
    at_of(split.text);
    begin = split.rewriting.begin_of(begin);
    end = split.rewriting.end_of(end);
    word = split.from;
  }
  if (!holds(text_, word.data())) {
    at_of(normal_);
    for (size_t i = state_.normal.rewritings_used; i-- > 0;) {
      begin = state_.normal.rewritings[i].begin_of(begin);
      end = state_.normal.rewritings[i].end_of(end);
    }
    word = raw_;
  }
  at_of(text_);
  return {static_cast<u32>(begin), static_cast<u32>(std::max(begin, end))};
}

}  // namespace tidepool
