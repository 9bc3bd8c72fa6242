#include "executor/sim/tag_map.h"

#include <iterator>

namespace tidepool {

void TagMap::set(u64 begin, u64 end, const Tag& tag) {
  split(begin);
  split(end);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  ranges_[begin] = {end, tag};
}

bool TagMap::holds(u64 begin, u64 end, const Tag& tag) const {
  const auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return false;
  const Range& range = std::prev(after)->second;
  return range.end >= end && range.tag == tag;
}

std::optional<Tag> TagMap::at(u64 offset) const {
  const auto after = ranges_.upper_bound(offset);
  if (after == ranges_.begin() || std::prev(after)->second.end <= offset) return std::nullopt;
  return std::prev(after)->second.tag;
}

void TagMap::split(u64 at) {
  const auto after = ranges_.lower_bound(at);
  if (after == ranges_.begin()) return;
  Range& range = std::prev(after)->second;
  if (range.end <= at) return;
  ranges_.emplace_hint(after, at, range);
  range.end = at;
}

}  // namespace tidepool
