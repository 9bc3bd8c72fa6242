// Nfc normalizes text to Unicode's form C. Most text already has that form and is only scanned; utf8proc
// handles the stretches that may need changes.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/newer_unicode.h"
#include "huggingface/tokenizer/normalizer.h"

namespace tidepool {

namespace {

// True for characters that never change and never combine with the character before, given as a few large
// runs. A missing character costs only speed. Tested against utf8proc, character by character.
bool stays(u32 c) {
  if (c < 0x300) return true;
  if (c < 0x3400) {
    return (c >= 0x388 && c < 0x483) || (c >= 0x48a && c < 0x591) || (c >= 0x2010 && c < 0x2070) ||
           (c >= 0x2190 && c < 0x2329) || (c >= 0x2400 && c < 0x2adc) || (c >= 0x3000 && c < 0x302a) ||
           (c >= 0x3030 && c < 0x3099) || (c >= 0x309b && c < 0x3400);
  }
  return c < 0xa000 || (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xff00 && c < 0xfff0) ||
         (c >= 0x1f000 && c < 0x20000) || (c >= 0x20000 && c < 0x2f800);
}

struct Range {
  u32 first;
  u32 last;
};

// Combining characters added since Unicode 9, in ascending order; newer_unicode has those of Unicode 15 and
// later. Hugging Face's normalizer implements Unicode 9 and treats them as ordinary characters: they are
// neither reordered nor composed.
constexpr auto since_unicode_9 = std::to_array<Range>({
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
});

bool is_unknown(u32 c) {
  if (c < since_unicode_9.front().first) return false;
  const auto after = std::ranges::upper_bound(since_unicode_9, c, {}, &Range::first);
  return c <= (after - 1)->last || is_newer(c);
}

bool may_change(u32 c) { return !stays(c) && !is_unknown(c); }

class Nfc final : public NormalizerStep {
 public:
  bool apply(NormalText& in, std::string& out, NormalState& state, MatchState&, bool&) const override {
    const std::string_view text = in.text;
    size_t kept = 0;    // everything before it is in `out`
    size_t before = 0;  // start of the last unchanged character; a following one may combine with it
    for (size_t at = 0; at < text.size();) {
      const u32 character = character_at(text, at);
      const size_t behind = at + character_bytes(text[at]);
      if (!may_change(character)) {
        before = stays(character) ? at : behind;
        at = behind;
        continue;
      }
      size_t end = behind;
      while (end < text.size() && may_change(character_at(text, end))) end += character_bytes(text[end]);
      out += text.substr(kept, before - kept);
      const size_t begin = out.size();
      compose(text.substr(before, end - before), out, state.characters);
      trace(text.substr(before, end - before), before, begin, out, state);
      kept = before = at = end;
    }
    if (kept == 0) return false;
    out += text.substr(kept);
    return true;
  }

 private:
  // Decomposes character by character and composes, both with utf8proc. Combining characters are sorted here,
  // because utf8proc_decompose sorts by swapping neighbours: 80 KB of two alternating accents took it
  // seconds.
  static void compose(std::string_view stretch, std::string& out, std::vector<i32>& characters) {
    characters.clear();
    for (size_t at = 0; at < stretch.size(); at += character_bytes(stretch[at]))
      decompose(static_cast<i32>(character_at(stretch, at)), characters);
    const auto is_starter = [](i32 c) { return combining_class(c) == 0; };
    for (auto at = characters.begin(); at != characters.end();) {
      const auto begin = std::find_if_not(at, characters.end(), is_starter);
      at = std::find_if(begin, characters.end(), is_starter);
      std::stable_sort(begin, at, [](i32 a, i32 b) { return combining_class(a) < combining_class(b); });
    }
    const auto count = utf8proc_normalize_utf32(characters.data(),
                                                static_cast<utf8proc_ssize_t>(characters.size()), options);
    CHECK(count >= 0, count);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      append_character(out, static_cast<u32>(characters[static_cast<size_t>(i)]));
  }

  static constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

  static int combining_class(i32 c) { return utf8proc_get_property(c)->combining_class; }

  static void decompose(i32 character, std::vector<i32>& out) {
    std::array<i32, 32> parts;  // Unicode's longest has 4
    int unused = 0;
    const auto count = utf8proc_decompose_char(character, parts.data(),
                                               static_cast<utf8proc_ssize_t>(parts.size()), options, &unused);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), count);
    out.insert(out.end(), parts.begin(), parts.begin() + count);
  }

  // Records which characters of `stretch` (beginning at `from`) became which characters of `out` (beginning
  // at `begin`). A unit is a starter with its combining characters, or several starters that are composed,
  // such as Hangul.
  static void trace(std::string_view stretch, size_t from, size_t begin, const std::string& out,
                    NormalState& state) {
    if (!state.traced || std::string_view(out).substr(begin) == stretch) return;
    std::string made;
    for (size_t at = 0, end = 0; at < stretch.size();) {
      do end += character_bytes(stretch[end]);
      while (end < stretch.size() && combining_class(static_cast<i32>(character_at(stretch, end))) != 0);
      made.clear();
      compose(stretch.substr(at, end - at), made, state.characters);
      if (end < stretch.size() && !std::string_view(out).substr(begin).starts_with(made)) continue;
      const size_t out_end = end < stretch.size() ? begin + made.size() : out.size();
      if (std::string_view(out).substr(begin, out_end - begin) != stretch.substr(at, end - at))
        state.changed({from + at, from + end}, {begin, out_end});
      begin = out_end;
      at = end;
    }
  }
};

}  // namespace

std::unique_ptr<NormalizerStep> normalize_nfc() { return std::make_unique<Nfc>(); }

}  // namespace tidepool
