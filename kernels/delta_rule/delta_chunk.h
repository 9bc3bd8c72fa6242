// Chunks of tokens of the gated delta rule: where each begins and ends.
#pragma once

#include <algorithm>

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool {

struct DeltaChunk {
  u32 begin = 0, count = 0;          // tokens of the sequence
  bool first = false, last = false;  // of its document; a tile's last chunk may go on in the next tile

  constexpr u32 end() const { return begin + count; }
  // True if the state before it is that before the tile.
  constexpr bool continues_tile_before() const { return begin == 0 && !first; }
  // RETURNS: the place of the state before it, if that is one of the tile's own.
  constexpr u32 slot() const { return begin / delta_chunk_tokens - 1; }
};

// A token's document: the row that it begins with, or the tile's first, if it began before the tile.
struct DeltaDocument {
  u32 row = 0;
  bool begun_before = false;
};
// `starts`: from the first row on, or null.
constexpr DeltaDocument delta_document(const DeltaShape& s, const i32* starts, u32 token) {
  const u32 begin = starts != nullptr ? static_cast<u32>(starts[token]) : 0;
  return {.row = begin > s.first_token ? begin - s.first_token : 0, .begun_before = begin < s.first_token};
}

// RETURNS: the chunk that holds a token. `starts`: of the sequence, or null.
constexpr DeltaChunk delta_chunk_at(const DeltaShape& s, const i32* starts, u32 token) {
  const auto [document, begun_before] = delta_document(s, starts, token);
  const u32 begin = document + (token - document) / delta_chunk_tokens * delta_chunk_tokens;
  const auto is_same = [&](u32 t) {
    return t < s.tokens && (starts == nullptr || starts[t] == starts[token]);
  };
  u32 end = token + 1;
  while (end < begin + delta_chunk_tokens && is_same(end)) ++end;
  return {.begin = begin,
          .count = end - begin,
          .first = begin == document && !begun_before,
          .last = !is_same(end) && !(end == s.tokens && s.goes_on)};
}

// Calls fn(chunk) for each chunk of a sequence, in order or from the last.
template <class Fn>
constexpr void for_delta_chunks(const DeltaShape& s, const i32* starts, Fn fn) {
  for (u32 token = 0; token < s.tokens;) {
    const DeltaChunk chunk = delta_chunk_at(s, starts, token);
    fn(chunk);
    token = chunk.end();
  }
}
template <class Fn>
constexpr void for_delta_chunks_back(const DeltaShape& s, const i32* starts, Fn fn) {
  for (u32 token = s.tokens; token > 0;) {
    const DeltaChunk chunk = delta_chunk_at(s, starts, token - 1);
    fn(chunk);
    token = chunk.begin;
  }
}

}  // namespace tidepool
