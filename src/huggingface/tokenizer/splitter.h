// One step of pre-tokenization: a piece of text becomes smaller pieces, or is rewritten.
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
  bool first = false;     // begins where the whole text begins
};

// What becomes of a match (the delimiter) and of what is between two. The names are Hugging Face's.
enum class Behavior : u8 { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// What one thread needs for one step.
struct SplitState {
  std::string text;       // rewritten
  bool traced = false;    // the next two are wanted
  std::string_view from;  // what it was
  Rewriting rewriting;
  struct Part {
    Match range;
    bool match = false;
  };
  std::vector<Part> parts;
};

// Takes the pieces in order. False: stop, something has failed.
class PieceSink {
 public:
  virtual bool take(Piece) = 0;

 protected:
  ~PieceSink() = default;
};

// Immutable: any thread may call at any time, with states of its own.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // False: the sink said so, or a pattern gave up, and then `gave_up` is set.
  virtual bool split(Piece, SplitState&, MatchState&, PieceSink&, bool& gave_up) const = 0;
};

// What a Split looks for.
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
  bool invert = false;  // what does not match is the delimiter
};
std::unique_ptr<Splitter> make_split(std::unique_ptr<Matcher>, SplitOptions);

std::unique_ptr<Splitter> prefix_space();  // a space in front, unless there is one

enum class Prepend : u8 { never, first, always };
// Spaces become `replacement`, which is put in front too.
std::unique_ptr<Splitter> replace_spaces(std::string replacement, Prepend);

std::unique_ptr<Splitter> bytes_as_characters();  // the byte alphabet

}  // namespace tidepool
