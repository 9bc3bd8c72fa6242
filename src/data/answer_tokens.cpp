#include "data/answer_tokens.h"

#include <algorithm>

namespace tidepool {

namespace {

using Ids = std::vector<u32>;

struct TokenRange {
  size_t begin = 0, end = 0;
};

// The ranges, where the pieces between the spans' ends encode to the ids of the whole: then no token lies
// over an end. That is the rule, for templates put special tokens and line ends there. False: it is not so.
Result<bool> ranges_by_pieces(const TextEncoder& encoder, std::string_view text,
                              std::span<const jinja::Span> spans, const Ids& whole,
                              std::vector<TokenRange>& out) {
  Ids piece;
  size_t at_token = 0;
  u64 at_byte = 0;
  const auto pass = [&](u64 end) -> Result<bool> {
    piece.clear();
    if (end > at_byte) TRY(encoder.encode(text.substr(at_byte, end - at_byte), Around::nothing, piece));
    at_byte = end;
    if (piece.size() > whole.size() - at_token ||
        !std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<i64>(at_token)))
      return false;
    at_token += piece.size();
    return true;
  };
  for (const jinja::Span& span : spans) {
    TRY_ASSIGN(const bool before, pass(span.begin));
    if (!before) return false;
    const size_t begin = at_token;
    TRY_ASSIGN(const bool inside, pass(span.end));
    if (!inside) return false;
    out.push_back({begin, at_token});
  }
  TRY_ASSIGN(const bool rest, pass(text.size()));
  return rest && at_token == whole.size();
}

// The ranges from encoding the text up to each end: where that gives other ids than the whole, a token lies
// over the end, and it belongs to the span.
Result<void> ranges_by_prefixes(const TextEncoder& encoder, std::string_view text,
                                std::span<const jinja::Span> spans, Around around, const Ids& whole,
                                std::vector<TokenRange>& out) {
  Ids prefix;
  const auto same = [&](u64 bytes) -> Result<size_t> {
    prefix.clear();
    TRY(encoder.encode(text.substr(0, bytes), around, prefix));
    return static_cast<size_t>(std::ranges::mismatch(prefix, whole).in1 - prefix.begin());
  };
  for (const jinja::Span& span : spans) {
    TRY_ASSIGN(const size_t begin, same(span.begin));
    TRY_ASSIGN(size_t end, same(span.end));
    if (span.end == text.size()) end = whole.size();
    if (end < prefix.size() && end < whole.size()) ++end;
    out.push_back({begin, std::max(begin, end)});
  }
  return {};
}

}  // namespace

Result<void> encode_spans(const TextEncoder& encoder, std::string_view text,
                          std::span<const jinja::Span> spans, Around around, std::vector<u32>& out) {
  Ids whole;
  TRY(encoder.encode(text, around, whole));
  std::vector<TokenRange> ranges;
  if (spans.size() == 1 && spans[0].begin == 0 && spans[0].end == text.size()) {
    ranges = {{0, whole.size()}};
  } else if (!spans.empty()) {
    bool exact = false;
    if (around == Around::nothing) {
      TRY_ASSIGN(exact, ranges_by_pieces(encoder, text, spans, whole, ranges));
    }
    if (!exact) {
      ranges.clear();
      TRY(ranges_by_prefixes(encoder, text, spans, around, whole, ranges));
    }
  }
  for (const TokenRange& range : ranges) {
    for (size_t i = range.begin; i < range.end; ++i) whole[i] |= learned_bit;
  }
  out.insert(out.end(), whole.begin(), whole.end());
  return {};
}

}  // namespace tidepool
