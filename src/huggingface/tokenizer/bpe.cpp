// Bpe merges short words by scanning all pairs, and long words with a heap.
#include "huggingface/tokenizer/bpe.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "huggingface/tokenizer/byte_alphabet.h"
#include "huggingface/tokenizer/characters.h"

namespace tidepool {

namespace {

constexpr u64 no_pair = ~u64{0};
constexpr size_t short_word = 32;  // symbols; up to here, scanning all pairs is faster than a heap
constexpr std::string_view low_line = "\u2581";

u64 pair_key(u32 left, u32 right) { return u64{left} << 32 | right; }
u64 spread(u64 key) { return key * 0x9e37'79b9'7f4a'7c15u; }

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, std::span<const BpeMerge> merges, BpeOptions options)
    : vocabulary_(vocabulary),
      options_(std::move(options)),
      id_of_byte_(256, none),
      affixes_(!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
  CHECK(!(affixes_ && options_.byte_level));
  const size_t size = std::bit_ceil(std::max<size_t>(merges.size() * 2, 16));
  pairs_.assign(size, {.pair = no_pair, .rank = none, .joined = none});
  pair_shift_ = 64 - static_cast<u32>(std::countr_zero(size));
  for (u32 rank = 0; rank < merges.size(); ++rank) {
    const u64 key = pair_key(merges[rank].left, merges[rank].right);
    size_t at = spread(key) >> pair_shift_;
    while (pairs_[at].pair != no_pair && pairs_[at].pair != key) at = (at + 1) & (size - 1);
    pairs_[at] = {.pair = key, .rank = rank, .joined = merges[rank].joined};
  }
  for (u32 byte = 0; byte < 256; ++byte) {
    std::string spelling;
    if (options_.byte_level) {
      append_character(spelling, character_of_byte(static_cast<u8>(byte)));
    } else {
      spelling = fmt::format("<0x{:02X}>", byte);
    }
    id_of_byte_[byte] = vocabulary_.find(spelling);
  }
  if (options_.byte_level && options_.ignore_merges) {
    for (u32 id = 0; id < vocabulary_.end_id(); ++id) {
      if (!vocabulary_.has(id)) continue;
      if (const auto bytes = spelled_bytes(vocabulary_.spelling(id))) whole_words_.add(*bytes, id);
    }
  }
  find_low_line_cuts(merges);
  find_line_feed_cuts(merges);
}

void Bpe::find_low_line_cuts(std::span<const BpeMerge> merges) {
  if (options_.byte_level || options_.ignore_merges || affixes_ || vocabulary_.find(low_line) == none) return;
  cuts_at_low_line_ = std::ranges::none_of(merges, [&](const BpeMerge& merge) {
    return vocabulary_.spelling(merge.right).starts_with(low_line) &&
           !vocabulary_.spelling(merge.left).ends_with(low_line);
  });
}

// Decides whether a line feed always ends a stretch. If a line feed is encoded as a byte, this needs a token
// for every byte: otherwise an unknown character before it would wait to be fused, and come out behind it.
void Bpe::find_line_feed_cuts(std::span<const BpeMerge> merges) {
  if (options_.byte_level || options_.ignore_merges || affixes_) return;
  u32 id = vocabulary_.find("\n");
  if (id == none && options_.byte_fallback && std::ranges::count(id_of_byte_, none) == 0)
    id = id_of_byte_['\n'];
  cuts_at_line_feed_ = id != none && std::ranges::none_of(merges, [&](const BpeMerge& merge) {
                         return merge.left == id || merge.right == id;
                       });
}

static_assert(2 * sizeof(u32) + sizeof(BpeState::Symbol) + sizeof(BpeState::Candidate) == 44);

const Bpe::Entry* Bpe::find(u32 left, u32 right) const {
  const u64 key = pair_key(left, right);
  for (size_t at = spread(key) >> pair_shift_;; at = (at + 1) & (pairs_.size() - 1)) {
    if (pairs_[at].pair == key) return &pairs_[at];
    if (pairs_[at].pair == no_pair) return nullptr;
  }
}

bool Bpe::encode(std::string_view word, BpeState& state, std::vector<u32>& out,
                 std::vector<u32>* ends) const {
  if (!cuts_at_low_line_) return encode_lines(word, 0, word.size(), state, out, ends);
  // Each part goes from the first ▁ of a run to the next run.
  size_t begin = 0;
  for (size_t at = word.find(low_line); at != std::string_view::npos; at = word.find(low_line, at)) {
    if (at > begin) {
      if (!encode_lines(word, begin, at, state, out, ends)) return false;
      begin = at;
    }
    while (word.substr(at).starts_with(low_line)) at += low_line.size();
  }
  return encode_lines(word, begin, word.size(), state, out, ends);
}

bool Bpe::encode_lines(std::string_view word, size_t begin, size_t end, BpeState& state,
                       std::vector<u32>& out, std::vector<u32>* ends) const {
  while (cuts_at_line_feed_ && begin < end) {
    const size_t line_feed = word.substr(begin, end - begin).find('\n');
    if (line_feed == std::string_view::npos) break;
    const size_t behind = begin + line_feed + 1;
    if (!encode_stretch(word, begin, behind, state, out, ends)) return false;
    begin = behind;
  }
  return begin == end || encode_stretch(word, begin, end, state, out, ends);
}

bool Bpe::encode_stretch(std::string_view word, size_t begin, size_t end, BpeState& state,
                         std::vector<u32>& out, std::vector<u32>* ends) const {
  const std::string_view stretch = word.substr(begin, end - begin);
  if (stretch.size() > word_bytes_max) return false;
  const size_t had = out.size();
  encode_word(stretch, state, out);
  if (!ends) return true;
  if (out.size() == had + 1) {
    ends->push_back(static_cast<u32>(end));
    return true;
  }
  // The cache does not keep ends, so words of several ids are merged once more.
  if (out.size() > had) merge(stretch, state);
  for (size_t i = had; i < out.size(); ++i) ends->push_back(static_cast<u32>(begin) + state.ends[i - had]);
  return true;
}

void Bpe::encode_word(std::string_view word, BpeState& state, std::vector<u32>& out) const {
  const bool cached = WordCache::fits(word);
  u64 hash = 0;
  if (cached) {
    hash = XXH3_64bits(word.data(), word.size());
    const std::span<const u32> ids = state.cache.find(word, hash);
    if (!ids.empty()) {
      out.insert(out.end(), ids.begin(), ids.end());
      return;
    }
  }
  const size_t begin = out.size();
  if (!options_.ignore_merges || !whole_word(word, out)) {
    merge(word, state);
    out.insert(out.end(), state.ids.begin(), state.ids.end());
  }
  if (cached) state.cache.put(word, hash, std::span(out).subspan(begin));
}

void Bpe::merge(std::string_view word, BpeState& state) const {
  symbols_of(word, state);
  if (state.ids.size() <= short_word) {
    merge_short(state);
  } else {
    merge_long(state);
  }
}

bool Bpe::whole_word(std::string_view word, std::vector<u32>& out) const {
  const u32 id = options_.byte_level ? whole_words_.find(word) : vocabulary_.find(word);
  if (id == none) return false;
  out.push_back(id);
  return true;
}

u32 Bpe::id_of_character(std::string_view character, bool first, bool last, std::string& spelling) const {
  if (!affixes_) return vocabulary_.find(character);
  spelling.clear();
  if (!first) spelling += options_.continuing_subword_prefix;
  spelling += character;
  if (last) spelling += options_.end_of_word_suffix;
  return vocabulary_.find(spelling);
}

bool Bpe::fall_back(std::string_view spelling, std::vector<u32>& ids) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : spelling) {
    if (id_of_byte_[static_cast<u8>(byte)] == none) return false;
  }
  for (const char byte : spelling) ids.push_back(id_of_byte_[static_cast<u8>(byte)]);
  return true;
}

// An unknown character waits until a known one comes. So unknown characters fuse, and bytes of a fallback
// come before an unknown character that waits. (This shows only in a vocabulary that has some of the <0x..>
// but not all.)
void Bpe::symbols_of(std::string_view word, BpeState& state) const {
  std::vector<u32>& ids = state.ids;
  std::vector<u32>& ends = state.ends;
  ids.clear();
  ends.clear();
  bool waiting = false;
  size_t waiting_end = 0;
  const auto put_end = [&](size_t end) {
    // Bytes may come before an unknown character that waits; then its stretch of text counts as theirs too.
    ends.push_back(std::max(static_cast<u32>(end), ends.empty() ? 0 : ends.back()));
  };
  const auto put = [&](u32 id, size_t end) {
    ids.push_back(id);
    put_end(end);
  };
  const auto flush = [&] {
    if (waiting) put(options_.unk, waiting_end);
    waiting = false;
  };
  const auto unknown = [&](size_t end) {
    if (options_.unk == none) return;
    if (!options_.fuse_unk) flush();
    waiting = true;
    waiting_end = end;
  };
  if (options_.byte_level) {
    for (size_t at = 0; at < word.size(); ++at) {
      const u32 id = id_of_byte_[static_cast<u8>(word[at])];
      if (id == none) {
        unknown(at + 1);
      } else {
        flush();
        put(id, at + 1);
      }
    }
  } else {
    for (size_t at = 0, end = 0; at < word.size(); at = end) {
      end = at + character_bytes(word[at]);
      const std::string_view character = word.substr(at, end - at);
      const u32 id = id_of_character(character, at == 0, end == word.size(), state.spelling);
      if (id != none) {
        flush();
        put(id, end);
      } else if (fall_back(affixes_ ? std::string_view(state.spelling) : character, ids)) {
        for (size_t byte = 1; ends.size() < ids.size(); ++byte) put_end(std::min(at + byte, end));
      } else {
        unknown(end);
      }
    }
  }
  flush();
}

void Bpe::merge_short(BpeState& state) const {
  std::vector<u32>&ids = state.ids, &ends = state.ends;
  std::array<u32, short_word> ranks;
  std::array<u32, short_word> joined;
  size_t count = ids.size();
  const auto look = [&](size_t i) {
    const Entry* entry = find(ids[i], ids[i + 1]);
    ranks[i] = entry ? entry->rank : none;
    joined[i] = entry ? entry->joined : none;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == none) break;
    ids[best] = joined[best];
    ends[best] = ends[best + 1];
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      ends[i] = ends[i + 1];
      ranks[i] = ranks[i + 1];
      joined[i] = joined[i + 1];
    }
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  ids.resize(count);
  ends.resize(count);
}

void Bpe::merge_long(BpeState& state) const {
  using Symbol = BpeState::Symbol;
  using Candidate = BpeState::Candidate;
  std::vector<Symbol>& symbols = state.symbols;
  std::vector<Candidate>& heap = state.heap;
  const u32 count = static_cast<u32>(state.ids.size());
  symbols.resize(count);
  heap.clear();
  for (u32 i = 0; i < count; ++i)
    symbols[i] = {.id = state.ids[i], .before = i - 1, .next = i + 1, .end = state.ends[i], .joined = false};
  const auto later = [](const Candidate& a, const Candidate& b) { return a.order > b.order; };
  const auto candidate = [&](u32 at, const Entry& entry) {
    return Candidate{.order = u64{entry.rank} << 32 | at, .joined = entry.joined};
  };
  for (u32 i = 0; i + 1 < count; ++i) {
    if (const Entry* entry = find(symbols[i].id, symbols[i + 1].id)) heap.push_back(candidate(i, *entry));
  }
  std::ranges::make_heap(heap, later);
  const auto offer = [&](u32 at) {
    const Entry* entry = find(symbols[at].id, symbols[symbols[at].next].id);
    if (!entry) return;
    heap.push_back(candidate(at, *entry));
    std::ranges::push_heap(heap, later);
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    const Candidate best = heap.back();
    heap.pop_back();
    const u32 at = static_cast<u32>(best.order);
    const u32 right = symbols[at].next;
    if (symbols[at].joined || right >= count) continue;
    // Skips a stale candidate: its symbols may have been joined with others since.
    const Entry* entry = find(symbols[at].id, symbols[right].id);
    if (!entry || entry->joined != best.joined) continue;
    symbols[at].id = best.joined;
    symbols[at].next = symbols[right].next;
    symbols[at].end = symbols[right].end;
    symbols[right].joined = true;
    if (symbols[at].next < count) {
      symbols[symbols[at].next].before = at;
      offer(at);
    }
    if (at > 0) offer(symbols[at].before);
  }
  state.ids.clear();
  state.ends.clear();
  for (u32 i = 0; i < count; i = symbols[i].next) {
    state.ids.push_back(symbols[i].id);
    state.ends.push_back(symbols[i].end);
  }
}

}  // namespace tidepool
