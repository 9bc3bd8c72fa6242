// FrameMap maps byte ranges of all tiers to values, split where ranges begin and end.
#pragma once

#include <array>
#include <map>

#include "tidepool/plan.h"

namespace tidepool {

template <class Value>
class FrameMap {
 public:
  struct Cell {
    u64 end = 0;
    Value value{};
  };

  // Calls fn(begin, end, Value&) for every piece of the frame, in order of offset. Untouched pieces start as
  // Value{}.
  template <class Fn>
  void visit(const Frame& frame, Fn&& fn) {
    auto& cells = cells_of(frame);
    split(cells, frame.offset);
    split(cells, frame.end());
    u64 at = frame.offset;
    auto it = cells.lower_bound(at);
    while (at < frame.end()) {
      if (it == cells.end() || it->first > at) {
        const u64 end = it == cells.end() ? frame.end() : std::min(frame.end(), it->first);
        it = cells.emplace_hint(it, at, Cell{end, Value{}});
      }
      fn(it->first, it->second.end, it->second.value);
      at = it->second.end;
      ++it;
    }
  }

  // Replaces all pieces of the frame by one. Keeps the map small.
  void assign(const Frame& frame, const Value& value) {
    auto& cells = cells_of(frame);
    split(cells, frame.offset);
    split(cells, frame.end());
    cells.erase(cells.lower_bound(frame.offset), cells.lower_bound(frame.end()));
    cells.emplace(frame.offset, Cell{frame.end(), value});
  }

 private:
  using Cells = std::map<u64, Cell>;

  Cells& cells_of(const Frame& frame) {
    return frame.tier == Tier::device ? devices_[frame.device] : others_[static_cast<u32>(frame.tier)];
  }

  static void split(Cells& cells, u64 offset) {
    auto it = cells.upper_bound(offset);
    if (it == cells.begin()) return;
    --it;
    if (it->first == offset || it->second.end <= offset) return;
    Cell right = it->second;
    it->second.end = offset;
    cells.emplace(offset, right);
  }

  std::array<Cells, devices_max> devices_;
  std::array<Cells, tier_count> others_;
};

}  // namespace tidepool
