// Splitter is one step of pre-tokenization: it splits or rewrites a piece of text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/regex.h"
#include "huggingface/tokenizer/rewriting.h"

namespace tidepool {

struct Piece {
  std::string_view text;  // never empty
  bool first = false;     // starts at the beginning of the whole text
};

// Treatment of matches (delimiters) and the text between them. The names are Hugging Face's.
enum class Behavior : u8 { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Scratch memory of one thread for one step.
struct SplitState {
  std::string text;       // rewritten text
  bool traced = false;    // true: the next two are recorded
  std::string_view from;  // text before rewriting
  Rewriting rewriting;
  struct Part {
    Match range;
    bool match = false;
  };
  std::vector<Part> parts;
};

// Receives the pieces in order. RETURNS: false to stop after a failure.
class PieceSink {
 public:
  virtual bool take(Piece) = 0;

 protected:
  ~PieceSink() = default;
};

// Immutable.
// THREADS: any, at any time, each with its own states.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // RETURNS: false if the sink returned false, or if a pattern gave up, which sets `gave_up`.
  virtual bool split(Piece, SplitState&, MatchState&, PieceSink&, bool& gave_up) const = 0;
};

// Finds the delimiters of a Split.
class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual Regex::Found find(std::string_view text, size_t from, MatchState&, Match&) const = 0;
};
std::unique_ptr<Matcher> match_regex(Regex);
std::unique_ptr<Matcher> match_literal(std::string);  // REQUIRES: not empty
std::unique_ptr<Matcher> match_numeric();             // one character of a general category N
std::unique_ptr<Matcher> match_white_space();         // one character

struct SplitOptions {
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // true: the text between matches is the delimiter
};
std::unique_ptr<Splitter> make_split(std::unique_ptr<Matcher>, SplitOptions);

std::unique_ptr<Splitter> prefix_space();  // adds a space in front, unless there is one

enum class Prepend : u8 { never, first, always };
// Replaces spaces by `replacement`, and may also put it in front.
std::unique_ptr<Splitter> replace_spaces(std::string replacement, Prepend);

std::unique_ptr<Splitter> bytes_as_characters();  // into the byte alphabet

}  // namespace tidepool
