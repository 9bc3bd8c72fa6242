// Encodes a text and marks the tokens that are to be learned.
#pragma once

#include <span>
#include <vector>

#include "data/documents/text_encoder.h"
#include "huggingface/jinja/template.h"

namespace tidepool {

// A token as datasets store it: its id, a bit for whether it is to be predicted, and a bit for whether
// another sequence of a unit begins with it.
inline constexpr u32 learned_bit = 0x8000'0000, begins_bit = 0x4000'0000;
constexpr u32 id_of_token(u32 token) { return token & ~(learned_bit | begins_bit); }
constexpr bool is_learned(u32 token) { return (token & learned_bit) != 0; }
constexpr bool begins_sequence(u32 token) { return (token & begins_bit) != 0; }

// The beginning that documents of units have in common.
struct SharedPrompt {
  u32 tokens = 0;  // with which both sequences begin: the second and the first, or this document and the last
  bool follows = false;  // the document belongs to the group of the one before it

  // Places that are saved where the prompt stands once: its last token stands before each completion.
  constexpr u32 places() const { return tokens > 1 ? tokens - 1 : 0; }
};

// Appends the tokens of `text`. Their ids are those of the whole text, spans or not. A token is learned if
// any part of it lies in one of `spans`.
// REQUIRES: spans are ascending and disjoint.
Result<void> encode_spans(const TextEncoder&, std::string_view text, std::span<const jinja::Span> spans,
                          Around, std::vector<u32>& out);

}  // namespace tidepool
