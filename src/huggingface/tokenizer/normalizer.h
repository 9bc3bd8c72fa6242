// Normalizer changes text before it is split: a list of steps.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/splitter.h"

namespace tidepool {

// Scratch memory of one thread.
struct NormalState {
  std::string text[2];          // each step reads one and writes the other
  std::vector<i32> characters;  // of a stretch, for NFC
  bool traced = false;          // true: steps record their changes in `rewritings`
  std::vector<Rewriting> rewritings;
  size_t rewritings_used = 0;     // entries used for the last text
  size_t bytes_max = ~size_t{0};  // limit for the output of a step
  std::string_view culprit;       // place of the rule at which normalize() stopped
  // Records that `from` of the step's input became `to` of its output.
  void changed(Match from, Match to) {
    if (traced) rewritings[rewritings_used].add(from, to);
  }
};

struct NormalText {
  std::string_view text;
  bool first = false;      // starts at the beginning of the whole text
  bool continued = false;  // a part was cut off before it: no prefix is added
};

// Immutable.
// THREADS: any, at any time, each with its own state.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Rewrites the text. May change fields of `in` other than `text`. Sets `gave_up` if a pattern gave up. May
  // stop when `out` exceeds NormalState::bytes_max.
  // REQUIRES: `out` is empty.
  // RETURNS: true if the new text is in `out`; false if nothing changes.
  virtual bool apply(NormalText& in, std::string& out, NormalState&, MatchState&, bool& gave_up) const = 0;
};

struct NormalizerRule {
  std::unique_ptr<NormalizerStep> step;
  std::string place;  // in the file: "normalizer.normalizers[2]"
};
using Normalizer = std::vector<NormalizerRule>;

// Limits of growth: rules that lengthen each other's output would fill the memory. A space becomes three
// bytes, and a byte spelled <0x0A> six; no rule in use makes more.
inline constexpr size_t normal_growth_max = 32;
inline constexpr size_t normal_growth_base = 4096;  // short texts may grow by this much

std::unique_ptr<NormalizerStep> normalize_nfc();
std::unique_ptr<NormalizerStep> prepend_text(std::string);
std::unique_ptr<NormalizerStep> replace_matches(std::unique_ptr<Matcher>, std::string content);
std::unique_ptr<NormalizerStep> strip_white_space(bool left, bool right);

enum class Normalized : u8 { yes, gave_up, too_long };
// The result is a view of the input or of the state. If not `yes`, NormalState::culprit is the rule at fault.
Normalized normalize(const Normalizer&, NormalText&, NormalState&, MatchState&);

}  // namespace tidepool
