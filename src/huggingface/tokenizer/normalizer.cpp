#include "huggingface/tokenizer/normalizer.h"

#include "huggingface/tokenizer/characters.h"

namespace tidepool {

namespace {

class PrependText final : public NormalizerStep {
 public:
  explicit PrependText(std::string prefix) : prefix_(std::move(prefix)) {}
  bool apply(NormalText& in, std::string& out, NormalState& state, MatchState&, bool&) const override {
    if (in.text.empty() || in.continued) return false;
    out = prefix_;
    state.changed({0, 0}, {0, out.size()});
    out += in.text;
    return true;
  }

 private:
  std::string prefix_;
};

class ReplaceMatches final : public NormalizerStep {
 public:
  ReplaceMatches(std::unique_ptr<Matcher> matcher, std::string content)
      : matcher_(std::move(matcher)), content_(std::move(content)) {}

  bool apply(NormalText& in, std::string& out, NormalState& normal, MatchState& state,
             bool& gave_up) const override {
    size_t kept = 0, from = 0;
    Match match;
    bool any = false;
    while (from <= in.text.size() && !in.text.empty() && out.size() <= normal.bytes_max) {
      const Regex::Found found = matcher_->find(in.text, from, state, match);
      gave_up = gave_up || found == Regex::Found::gave_up;
      if (found != Regex::Found::yes) break;
      const bool empty = match.begin == match.end;
      if (!empty || !any || match.end != kept) {
        out += in.text.substr(kept, match.begin - kept);
        const size_t begin = out.size();
        out += content_;
        normal.changed(match, {begin, out.size()});
        if (match.begin == 0 && !empty && content_.empty()) in.first = false;
        kept = match.end;
        any = true;
      }
      if (empty && match.end >= in.text.size()) break;
      from = empty ? match.end + character_bytes(in.text[match.end]) : match.end;
    }
    out += in.text.substr(kept);
    return any;
  }

 private:
  std::unique_ptr<Matcher> matcher_;
  std::string content_;
};

class StripWhiteSpace final : public NormalizerStep {
 public:
  StripWhiteSpace(bool left, bool right) : left_(left), right_(right) {}
  bool apply(NormalText& in, std::string& out, NormalState& state, MatchState&, bool&) const override {
    size_t begin = 0, end = in.text.size();
    while (left_ && begin < end && is_white_space(character_at(in.text, begin)))
      begin += character_bytes(in.text[begin]);
    while (right_ && end > begin) {
      const size_t last = character_before(in.text, end);
      if (!is_white_space(character_at(in.text, last))) break;
      end = last;
    }
    if (begin > 0) in.first = false;
    state.changed({0, begin}, {0, 0});
    out = in.text.substr(begin, end - begin);
    return true;
  }

 private:
  bool left_, right_;
};

}  // namespace

std::unique_ptr<NormalizerStep> prepend_text(std::string prefix) {
  return std::make_unique<PrependText>(std::move(prefix));
}
std::unique_ptr<NormalizerStep> replace_matches(std::unique_ptr<Matcher> matcher, std::string content) {
  return std::make_unique<ReplaceMatches>(std::move(matcher), std::move(content));
}
std::unique_ptr<NormalizerStep> strip_white_space(bool left, bool right) {
  return std::make_unique<StripWhiteSpace>(left, right);
}

Normalized normalize(const Normalizer& rules, NormalText& text, NormalState& state, MatchState& match) {
  u32 next = 0;
  state.rewritings_used = 0;
  state.bytes_max = normal_growth_base + normal_growth_max * text.text.size();
  for (const auto& [step, place] : rules) {
    std::string& out = state.text[next];
    out.clear();
    if (state.traced) {
      if (state.rewritings.size() == state.rewritings_used) state.rewritings.emplace_back();
      state.rewritings[state.rewritings_used].clear();
    }
    bool gave_up = false;
    const bool changed = step->apply(text, out, state, match, gave_up);
    if (gave_up || out.size() > state.bytes_max) {
      state.culprit = place;
      return gave_up ? Normalized::gave_up : Normalized::too_long;
    }
    if (!changed) continue;
    if (state.traced) ++state.rewritings_used;
    text.text = out;
    next = 1 - next;
  }
  return Normalized::yes;
}

}  // namespace tidepool
