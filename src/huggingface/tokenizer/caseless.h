// Caseless refuses patterns that match differently under (?i) in Oniguruma and in PCRE2. Oniguruma folds
// cases fully, one character to several: ß matches ss, and ss matches ß. PCRE2 folds only character by
// character. Found by comparing with Hugging Face's library, character by character: the two agree where one
// character folds into one, and in classes with a ^.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tidepool {

// Gets the parts of one pattern in their order.
// Error: bad_input; its message names the part that PCRE2 cannot express: "'ss' under (?i), where 'ß' would
// match too,".
class Caseless {
 public:
  bool here() const { return here_; }

  // A group begins. `caseless` is the option in the group's head, if it has one.
  void open(std::optional<bool> caseless);
  void close();
  // Turns (?i) on from here, as a (?i) at the start of the pattern does.
  void begin() { here_ = true; }

  // One character outside of a class. A group does not interrupt a sequence of literals, as in Oniguruma.
  Result<void> literal(char32_t character);
  // Anything else outside of a class: ends a sequence of literals.
  void other() { row_.clear(); }
  // A range within a class; for a single character, `first` equals `last`.
  Result<void> member(char32_t first, char32_t last, bool negated) const;

 private:
  bool here_ = false;
  std::vector<bool> around_;  // value of here_ outside of each open group
  std::u32string row_;        // the current sequence of literals, case-folded
};

}  // namespace tidepool
