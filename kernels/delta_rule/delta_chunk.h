// Chunks of tokens of the gated delta rule: where each begins and ends.
#pragma once

#include <algorithm>

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool {

struct DeltaChunk {
  u32 begin = 0, count = 0;          // tokens of the sequence
  bool first = false, last = false;  // of its document

  constexpr u32 end() const { return begin + count; }
  // RETURNS: the place of the state before it, if it is not the first.
  constexpr u32 slot() const { return begin / delta_chunk_tokens - 1; }
};

// RETURNS: the chunk that holds a token. `starts`: of the sequence, or null.
constexpr DeltaChunk delta_chunk_at(const i32* starts, u32 tokens, u32 token) {
  const u32 document = starts != nullptr ? static_cast<u32>(starts[token]) : 0;
  const u32 begin = document + (token - document) / delta_chunk_tokens * delta_chunk_tokens;
  const auto is_same = [&](u32 t) {
    return t < tokens && (starts == nullptr || static_cast<u32>(starts[t]) == document);
  };
  u32 end = token + 1;
  while (end < begin + delta_chunk_tokens && is_same(end)) ++end;
  return {.begin = begin, .count = end - begin, .first = begin == document, .last = !is_same(end)};
}

// Calls fn(chunk) for each chunk of a sequence, in order or from the last.
template <class Fn>
constexpr void for_delta_chunks(const i32* starts, u32 tokens, Fn fn) {
  for (u32 token = 0; token < tokens;) {
    const DeltaChunk chunk = delta_chunk_at(starts, tokens, token);
    fn(chunk);
    token = chunk.end();
  }
}
template <class Fn>
constexpr void for_delta_chunks_back(const i32* starts, u32 tokens, Fn fn) {
  for (u32 token = tokens; token > 0;) {
    const DeltaChunk chunk = delta_chunk_at(starts, tokens, token - 1);
    fn(chunk);
    token = chunk.begin;
  }
}

}  // namespace tidepool
