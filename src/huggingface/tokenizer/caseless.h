// What stands under (?i) in a pattern. Oniguruma folds cases fully there, one character to several: ß matches
// ss, and ss matches ß. PCRE2 knows characters only, so that all of which the two make something else is
// refused. Read off Hugging Face's library, character by character: where one folds into one, and in classes
// with a ^, they agree.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tidepool {

// Reads the parts of one pattern in their order. Errors are of kind bad_input; their message is the name of
// what cannot be said to PCRE2: "'ss' under (?i), where 'ß' would match too,".
class Caseless {
 public:
  bool here() const { return here_; }

  // A group begins; `caseless` is what its head says, if it says anything.
  void open(std::optional<bool> caseless);
  void close();
  // From here on, as by a (?i) at the start.
  void begin() { here_ = true; }

  // One character outside of a class. Groups do not part what stands in a row, as they do not for Oniguruma.
  Result<void> literal(char32_t character);
  // Anything else outside of a class: it ends a row of literals.
  void other() { row_.clear(); }
  // A part of a class: a range, or one character twice.
  Result<void> member(char32_t first, char32_t last, bool negated) const;

 private:
  bool here_ = false;
  std::vector<bool> around_;  // here_ outside of each group that is open
  std::u32string row_;        // literals up to here, folded
};

}  // namespace tidepool
