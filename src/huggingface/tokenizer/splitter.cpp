// Splitters: one class per type of pre-tokenizer, and matchers for their patterns.
#include "huggingface/tokenizer/splitter.h"

#include <algorithm>

#include "huggingface/tokenizer/byte_alphabet.h"
#include "huggingface/tokenizer/characters.h"

namespace tidepool {

namespace {

class RegexMatcher final : public Matcher {
 public:
  explicit RegexMatcher(Regex regex) : regex_(std::move(regex)) {}
  Regex::Found find(std::string_view text, size_t from, MatchState& state, Match& match) const override {
    return regex_.find(text, from, state, match);
  }

 private:
  Regex regex_;
};

class LiteralMatcher final : public Matcher {
 public:
  explicit LiteralMatcher(std::string literal) : literal_(std::move(literal)) {}
  Regex::Found find(std::string_view text, size_t from, MatchState&, Match& match) const override {
    match.begin = text.find(literal_, from);
    match.end = match.begin + literal_.size();
    return match.begin == std::string_view::npos ? Regex::Found::no : Regex::Found::yes;
  }

 private:
  std::string literal_;
};

class CharacterMatcher final : public Matcher {
 public:
  explicit CharacterMatcher(bool (*belongs)(u32)) : belongs_(belongs) {}
  Regex::Found find(std::string_view text, size_t from, MatchState&, Match& match) const override {
    for (size_t at = from; at < text.size(); at = match.end) {
      match = {at, at + character_bytes(text[at])};
      if (belongs_(character_at(text, at))) return Regex::Found::yes;
    }
    return Regex::Found::no;
  }

 private:
  bool (*belongs_)(u32);
};

// Yields matches and the text between them, in order. Empty matches count, except right behind another match,
// as in Rust's regular expressions.
class Parts {
 public:
  Parts(const Matcher& matcher, std::string_view text, MatchState& state)
      : matcher_(matcher), text_(text), state_(state) {}

  // RETURNS: false at the end, and if gave_up().
  bool next(SplitState::Part& part) {
    if (waiting_) {
      waiting_ = false;
      part = {match_, true};
      end_ = match_.end;
      return true;
    }
    if (end_ == text_.size() && done_) return false;
    if (!find()) {
      done_ = true;
      if (gave_up_ || end_ == text_.size()) return false;
      part = {{end_, text_.size()}, false};
      end_ = text_.size();
      return true;
    }
    if (match_.begin > end_) {
      part = {{end_, match_.begin}, false};
      waiting_ = true;
      return true;
    }
    part = {match_, true};
    end_ = match_.end;
    return true;
  }

  bool gave_up() const { return gave_up_; }

 private:
  bool find() {
    while (!done_ && from_ <= text_.size()) {
      const Regex::Found found = matcher_.find(text_, from_, state_, match_);
      gave_up_ = found == Regex::Found::gave_up;
      if (found != Regex::Found::yes) return false;
      if (match_.end > match_.begin) {
        from_ = behind_ = match_.end;
        any_ = true;
        return true;
      }
      const bool adjacent = any_ && match_.end == behind_;
      from_ = match_.end < text_.size() ? match_.end + character_bytes(text_[match_.end]) : text_.size() + 1;
      if (adjacent) continue;
      behind_ = match_.end;
      any_ = true;
      return true;
    }
    return false;
  }

  const Matcher& matcher_;
  std::string_view text_;
  MatchState& state_;
  Match match_;
  size_t from_ = 0;    // earliest begin of the next match
  size_t end_ = 0;     // of the last part
  size_t behind_ = 0;  // of the last match
  bool any_ = false, waiting_ = false, done_ = false, gave_up_ = false;
};

class Split final : public Splitter {
 public:
  Split(std::unique_ptr<Matcher> matcher, SplitOptions options)
      : matcher_(std::move(matcher)), options_(options) {}

  bool split(Piece piece, SplitState& state, MatchState& match, PieceSink& sink,
             bool& gave_up) const override {
    Parts parts(*matcher_, piece.text, match);
    SplitState::Part part;
    // These two behaviors, used by most files, need no merging, so each part is passed on at once.
    if (options_.behavior == Behavior::isolated || options_.behavior == Behavior::removed) {
      while (parts.next(part)) {
        if (options_.behavior == Behavior::removed && part.match != options_.invert) continue;
        if (!give(piece, part.range, sink)) return false;
      }
    } else {
      state.parts.clear();
      while (parts.next(part)) add({part.range, part.match != options_.invert}, state.parts);
      if (options_.behavior == Behavior::merged_with_next) merge_with_next(state.parts);
      for (size_t i = 0; i < state.parts.size() && !parts.gave_up(); ++i) {
        if (!give(piece, state.parts[i].range, sink)) return false;
      }
    }
    gave_up = parts.gave_up();
    return !gave_up;
  }

 private:
  static bool give(const Piece& piece, const Match& range, PieceSink& sink) {
    if (range.begin == range.end) return true;
    return sink.take(
        {piece.text.substr(range.begin, range.end - range.begin), piece.first && range.begin == 0});
  }

  // `match` of the last part keeps the kind of the part before the new one.
  void add(SplitState::Part part, std::vector<SplitState::Part>& parts) const {
    const bool before = !parts.empty() && parts.back().match;
    const bool merges =
        !parts.empty() && ((options_.behavior == Behavior::contiguous && part.match == before) ||
                           (options_.behavior == Behavior::merged_with_previous && part.match && !before));
    if (merges) {
      parts.back().range.end = part.range.end;
      parts.back().match = part.match;
    } else {
      parts.push_back(part);
    }
  }

  // Goes from end to begin, so that of two adjacent matches the second belongs to the next part.
  static void merge_with_next(std::vector<SplitState::Part>& parts) {
    size_t out = parts.size();
    bool behind = false;  // true if the part behind was a match
    for (size_t i = parts.size(); i-- > 0;) {
      const SplitState::Part part = parts[i];
      if (part.match && !behind && out < parts.size()) {
        parts[out].range.begin = part.range.begin;
      } else {
        parts[--out] = part;
      }
      behind = part.match;
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(out));
  }

  std::unique_ptr<Matcher> matcher_;
  SplitOptions options_;
};

void begin_trace(const Piece& piece, SplitState& state) {
  if (!state.traced) return;
  state.from = piece.text;
  state.rewriting.clear();
}

class PrefixSpace final : public Splitter {
 public:
  bool split(Piece piece, SplitState& state, MatchState&, PieceSink& sink, bool&) const override {
    if (piece.text.starts_with(' ')) return sink.take(piece);
    state.text = ' ';
    state.text += piece.text;
    begin_trace(piece, state);
    if (state.traced) state.rewriting.add({0, 0}, {0, 1});
    return sink.take({state.text, piece.first});
  }
};

class ReplaceSpaces final : public Splitter {
 public:
  ReplaceSpaces(std::string replacement, Prepend prepend)
      : replacement_(std::move(replacement)), prepend_(prepend) {}

  bool split(Piece piece, SplitState& state, MatchState&, PieceSink& sink, bool&) const override {
    state.text.clear();
    begin_trace(piece, state);
    const bool wanted = prepend_ == Prepend::always || (prepend_ == Prepend::first && piece.first);
    if (wanted && !piece.text.starts_with(' ') && !piece.text.starts_with(replacement_)) put({0, 0}, state);
    size_t kept = 0;
    for (size_t at; (at = piece.text.find(' ', kept)) != std::string_view::npos; kept = at + 1) {
      state.text += piece.text.substr(kept, at - kept);
      put({at, at + 1}, state);
    }
    state.text += piece.text.substr(kept);
    return sink.take({state.text, piece.first});
  }

 private:
  void put(Match from, SplitState& state) const {
    const size_t begin = state.text.size();
    state.text += replacement_;
    if (state.traced) state.rewriting.add(from, {begin, state.text.size()});
  }

  std::string replacement_;
  Prepend prepend_;
};

class BytesAsCharacters final : public Splitter {
 public:
  bool split(Piece piece, SplitState& state, MatchState&, PieceSink& sink, bool&) const override {
    state.text.clear();
    begin_trace(piece, state);
    for (size_t at = 0; at < piece.text.size(); ++at) {
      const size_t begin = state.text.size();
      append_as_characters(state.text, piece.text.substr(at, 1));
      if (state.traced) state.rewriting.add({at, at + 1}, {begin, state.text.size()});
    }
    return sink.take({state.text, piece.first});
  }
};

}  // namespace

std::unique_ptr<Matcher> match_regex(Regex regex) { return std::make_unique<RegexMatcher>(std::move(regex)); }
std::unique_ptr<Matcher> match_literal(std::string literal) {
  return std::make_unique<LiteralMatcher>(std::move(literal));
}
std::unique_ptr<Matcher> match_numeric() { return std::make_unique<CharacterMatcher>(is_numeric); }
std::unique_ptr<Matcher> match_white_space() { return std::make_unique<CharacterMatcher>(is_white_space); }

std::unique_ptr<Splitter> make_split(std::unique_ptr<Matcher> matcher, SplitOptions options) {
  return std::make_unique<Split>(std::move(matcher), options);
}
std::unique_ptr<Splitter> prefix_space() { return std::make_unique<PrefixSpace>(); }
std::unique_ptr<Splitter> replace_spaces(std::string replacement, Prepend prepend) {
  return std::make_unique<ReplaceSpaces>(std::move(replacement), prepend);
}
std::unique_ptr<Splitter> bytes_as_characters() { return std::make_unique<BytesAsCharacters>(); }

}  // namespace tidepool
