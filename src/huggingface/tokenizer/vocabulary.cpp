#include "huggingface/tokenizer/vocabulary.h"

#include <algorithm>

#include "base/text/hash.h"

namespace tidepool {

namespace {

constexpr size_t slots_least = 64;

}  // namespace

void StringIds::grow() {
  std::vector<Slot> old(std::max(slots_least, slots_.size() * 2));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id == none) continue;
    size_t at = hash_of(std::string_view(text_).substr(slot.begin, slot.bytes)) & mask;
    while (slots_[at].id != none) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void StringIds::add(std::string_view spelling, u32 id) {
  if (count_ * 2 >= slots_.size()) grow();
  const u64 hash = hash_of(spelling);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id != none) at = (at + 1) & mask;
  slots_[at] = {.hash = static_cast<u32>(hash >> 32),
                .bytes = static_cast<u32>(spelling.size()),
                .begin = text_.size(),
                .id = id};
  text_ += spelling;
  ++count_;
}

u32 StringIds::find(std::string_view spelling) const {
  if (slots_.empty()) return none;
  const u64 hash = hash_of(spelling);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id != none; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == static_cast<u32>(hash >> 32) && slot.bytes == spelling.size() &&
        std::string_view(text_).substr(slot.begin, slot.bytes) == spelling)
      return slot.id;
  }
  return none;
}

bool Vocabulary::add(std::string_view spelling, u32 id) {
  if (has(id)) return false;
  if (id >= begin_.size()) begin_.resize(id + 1);
  begin_[id] = {.begin = text_.size(), .bytes = static_cast<u32>(spelling.size()), .used = true};
  text_ += spelling;
  ids_.add(spelling, id);
  return true;
}

std::string_view Vocabulary::spelling(u32 id) const {
  return has(id) ? std::string_view(text_).substr(begin_[id].begin, begin_[id].bytes) : std::string_view();
}

}  // namespace tidepool
