// WordCache keeps the ids of recent words. Text repeats its words so often that nearly all are found. Fixed
// size: a new word replaces the word in its slot.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

class WordCache {
 public:
  static constexpr size_t word_bytes_max = 26;
  static constexpr size_t ids_max = 8;
  static constexpr size_t slots = 1u << 16;  // 4 MiB

  static bool fits(std::string_view word) { return word.size() <= word_bytes_max; }

  // Looks up a word.
  // RETURNS: its ids; empty if not cached. (A cached word has at least one id.)
  // REQUIRES, also for put(): fits(word).
  std::span<const u32> find(std::string_view word, u64 hash) const {
    if (table_.empty()) return {};
    const Slot& slot = table_[hash % slots];
    if (slot.bytes != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return {};
    return std::span(slot.ids).first(slot.count);
  }

  void put(std::string_view word, u64 hash, std::span<const u32> ids) {
    if (ids.empty() || ids.size() > ids_max) return;
    if (table_.empty()) table_.resize(slots);
    Slot& slot = table_[hash % slots];
    std::memcpy(slot.word.data(), word.data(), word.size());
    std::ranges::copy(ids, slot.ids.begin());
    slot.bytes = static_cast<u8>(word.size());
    slot.count = static_cast<u8>(ids.size());
  }

 private:
  struct Slot {
    std::array<u32, ids_max> ids{};
    u8 bytes = 0;
    u8 count = 0;
    std::array<char, word_bytes_max> word{};
  };
  static_assert(sizeof(Slot) <= 64, "one cache line");

  std::vector<Slot> table_;
};

}  // namespace tidepool
