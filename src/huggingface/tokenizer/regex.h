// A compiled pattern. Wraps PCRE2 (just-in-time compiled where the machine allows it).
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

// What one thread needs to match, for any pattern.
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

// Any thread may match at any time, each with a MatchState of its own.
class Regex {
 public:
  // `pattern` as for Oniguruma. The error's message is a reason without a place.
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  enum class Found : u8 { yes, no, gave_up };  // gave_up: it would take too many steps
  // The first match that begins at `from` or later; matching may look before. REQUIRES: text is UTF-8.
  Found find(std::string_view text, size_t from, MatchState&, Match&) const;

  bool looks_behind() const;

 private:
  struct Parts;
  explicit Regex(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool
