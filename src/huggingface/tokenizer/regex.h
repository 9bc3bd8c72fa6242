// Regex is a compiled pattern. It wraps PCRE2 (with just-in-time compilation where the system allows it).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct Match {
  size_t begin = 0;
  size_t end = 0;
};

// Scratch memory of one thread, for any pattern.
class MatchState {
 public:
  MatchState();
  ~MatchState();
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

 private:
  friend class Regex;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// THREADS: any may match at any time, each with its own MatchState.
class Regex {
 public:
  // `pattern` in Oniguruma's syntax.
  // Error: a reason without file name.
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  enum class Found : u8 { yes, no, gave_up };  // gave_up: the match would take too many steps
  // Finds the first match that begins at `from` or later; the pattern may look at text before `from`.
  // REQUIRES: text is UTF-8.
  Found find(std::string_view text, size_t from, MatchState&, Match&) const;

  bool looks_behind() const;

 private:
  struct Parts;
  explicit Regex(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool
