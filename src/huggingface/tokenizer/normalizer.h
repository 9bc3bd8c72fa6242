// What happens to text before it is cut: a list of steps.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

// What one thread needs.
struct NormalState {
  std::string text[2];          // the steps write into one from the other
  std::vector<i32> characters;  // of a stretch that NFC works on
  bool traced = false;          // what the steps changed is wanted:
  std::vector<Rewriting> rewritings;
  size_t rewritings_used = 0;     // of them, of the last text
  size_t bytes_max = ~size_t{0};  // that a step may make of the text
  std::string_view culprit;       // place of the step at which normalize() stopped
  // `from` of the step's text became `to` of what it writes.
  void changed(Match from, Match to) {
    if (traced) rewritings[rewritings_used].add(from, to);
  }
};

struct NormalText {
  std::string_view text;
  bool first = false;      // begins where the whole text begins
  bool continued = false;  // a part was cut off before it: nothing is put in front
};

// Immutable: any thread may call at any time, with a state of its own.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Writes the new text into `out` (which is empty) and returns true, or returns false if nothing changes.
  // May change `in` but for its text. `gave_up` is set where a pattern gave up. A step may stop once `out`
  // holds more than NormalState::bytes_max.
  virtual bool apply(NormalText& in, std::string& out, NormalState&, MatchState&, bool& gave_up) const = 0;
};

struct NormalizerRule {
  std::unique_ptr<NormalizerStep> step;
  std::string place;  // in the file: "normalizer.normalizers[2]"
};
using Normalizer = std::vector<NormalizerRule>;

// Rules that lengthen what others have lengthened would fill the memory. A space becomes three bytes, a byte
// spelled <0x0A> six; no rule that is in use makes more.
inline constexpr size_t normal_growth_max = 32;
inline constexpr size_t normal_growth_base = 4096;  // short texts may become longer

std::unique_ptr<NormalizerStep> normalize_nfc();
std::unique_ptr<NormalizerStep> prepend_text(std::string);
std::unique_ptr<NormalizerStep> replace_matches(std::unique_ptr<Matcher>, std::string content);
std::unique_ptr<NormalizerStep> strip_white_space(bool left, bool right);

enum class Normalized : u8 { yes, gave_up, too_long };
// Other than yes: NormalState::culprit says at which rule. The result is a view of the input or of the state.
Normalized normalize(const Normalizer&, NormalText&, NormalState&, MatchState&);

}  // namespace tidepool
