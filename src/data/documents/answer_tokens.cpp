#include "data/documents/answer_tokens.h"

#include <algorithm>

namespace tidepool {

namespace {

// True if a byte of the token lies in `span`. A token without bytes (an added space, BOS) belongs to the text
// behind it; at the end of the text (EOS), to the text before it.
bool overlaps(const TokenBytes& token, const jinja::Span& span, size_t text_bytes) {
  if (token.begin < token.end) return token.begin < span.end && token.end > span.begin;
  return token.begin >= span.begin &&
         (token.begin < span.end || (token.begin == text_bytes && span.end == text_bytes));
}

}  // namespace

Result<void> encode_spans(const TextEncoder& encoder, std::string_view text,
                          std::span<const jinja::Span> spans, Around around, std::vector<u32>& out) {
  const size_t first = out.size();
  const bool all = spans.size() == 1 && spans[0].begin == 0 && spans[0].end == text.size();
  if (all || spans.empty()) {  // positions of tokens are not needed
    TRY(encoder.encode(text, around, out));
    for (size_t i = first; all && i < out.size(); ++i) out[i] |= learned_bit;
    return {};
  }
  std::vector<TokenBytes> places;
  TRY(encoder.encode_with_places(text, around, out, places));
  auto span = spans.begin();
  for (size_t i = 0; i < places.size(); ++i) {
    const TokenBytes& token = places[i];
    while (span != spans.end() && span->end <= token.begin && token.begin < text.size()) ++span;
    if (span != spans.end() && overlaps(token, *span, text.size())) out[first + i] |= learned_bit;
  }
  return {};
}

}  // namespace tidepool
