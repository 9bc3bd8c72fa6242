// Bpe does byte-pair encoding: a word starts as characters (or bytes), and the pair of neighbours with the
// lowest rank is joined, leftmost first, until no pair has a rank. Sennrich et al. 2016.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "huggingface/tokenizer/vocabulary.h"
#include "huggingface/tokenizer/word_cache.h"

namespace tidepool {

// Limit of a word's length: merging takes at least 44 bytes of memory per byte, 352 MiB for the longest.
inline constexpr size_t word_bytes_max = 8 * mib;

struct BpeMerge {
  u32 left = 0, right = 0;
  u32 joined = 0;
};

struct BpeOptions {
  bool byte_level = false;  // words are bytes; their spellings in the vocabulary use the byte alphabet
  bool byte_fallback = false;
  bool fuse_unk = false;
  bool ignore_merges = false;  // a word that is in the vocabulary is one token, regardless of merges
  u32 unk = none;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

// Scratch memory of one thread.
struct BpeState {
  struct Symbol {
    u32 id = 0;
    u32 before = 0;
    u32 next = 0;
    u32 end = 0;
    bool joined = false;  // with the symbol before it
  };
  struct Candidate {
    u64 order = 0;  // rank, then position
    u32 joined = 0;
  };
  std::vector<u32> ids, ends;  // of symbols; their ends in the word
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::string spelling;
  WordCache cache;
};

// Immutable.
// THREADS: any, at any time, each with its own state.
class Bpe {
 public:
  // `merges` in order of rank; of equal pairs the last one counts.
  // REQUIRES: `vocabulary` outlives the Bpe.
  Bpe(const Vocabulary& vocabulary, std::span<const BpeMerge> merges, BpeOptions);

  // Appends the ids of a word. `ends`, if not null, gets one element per id: the end of the id's bytes in
  // `word`, where the next id's bytes begin.
  // REQUIRES: word is UTF-8, not empty, shorter than 2 GiB.
  // RETURNS: false if a part without a place to cut exceeds word_bytes_max; `out` and `ends` then hold a
  // part.
  [[nodiscard]] bool encode(std::string_view word, BpeState&, std::vector<u32>& out,
                            std::vector<u32>* ends) const;

  // True if no token crosses from another character to a ▁. Then a text without pre-tokenizer can be cut into
  // words, too.
  bool cuts_at_low_line() const { return cuts_at_low_line_; }

 private:
  struct Entry {
    u64 pair;
    u32 rank;
    u32 joined;
  };
  const Entry* find(u32 left, u32 right) const;
  void encode_word(std::string_view word, BpeState&, std::vector<u32>& out) const;
  bool encode_lines(std::string_view word, size_t begin, size_t end, BpeState&, std::vector<u32>& out,
                    std::vector<u32>* ends) const;
  bool encode_stretch(std::string_view word, size_t begin, size_t end, BpeState&, std::vector<u32>& out,
                      std::vector<u32>* ends) const;
  void merge(std::string_view word, BpeState&) const;
  bool whole_word(std::string_view word, std::vector<u32>& out) const;
  void symbols_of(std::string_view word, BpeState&) const;
  u32 id_of_character(std::string_view character, bool first, bool last, std::string& spelling) const;
  bool fall_back(std::string_view spelling, std::vector<u32>& ids) const;
  void merge_short(BpeState&) const;
  void merge_long(BpeState&) const;
  void find_low_line_cuts(std::span<const BpeMerge>);
  void find_line_feed_cuts(std::span<const BpeMerge>);

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  std::vector<Entry> pairs_;  // open addressing
  u32 pair_shift_ = 0;
  std::vector<u32> id_of_byte_;  // 256 elements, for the byte alphabet or for <0x..>
  StringIds whole_words_;        // by their bytes; used with byte_level and ignore_merges
  bool affixes_ = false;
  bool cuts_at_low_line_ = false;
  bool cuts_at_line_feed_ = false;  // true if a line feed is always a token of its own
};

}  // namespace tidepool
