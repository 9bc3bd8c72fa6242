#include "chunk_manager/occupancy.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace tidepool {
namespace {

// For 2^31 positions: a cover has at most two nodes of each depth, and the ancestors of both ends are added.
constexpr u64 lists_max = 4 * 32;

}  // namespace

Occupancy::Occupancy(i32 positions)
    : leaves_(std::bit_ceil(static_cast<u64>(positions))), nodes_(2 * leaves_) {}

// Visits the fewest nodes that make up the range.
template <class Visit>
void Occupancy::for_cover(Range range, Visit&& visit) const {
  u64 l = leaves_ + static_cast<u64>(range.begin), r = leaves_ + static_cast<u64>(range.end) + 1;
  for (; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) visit(l++);
    if (r % 2 == 1) visit(--r);
  }
}

template <class Visit>
void Occupancy::for_ancestors(i32 position, Visit&& visit) const {
  for (u64 n = (leaves_ + static_cast<u64>(position)) / 2; n > 0; n /= 2) visit(n);
}

void Occupancy::add(Runs& runs, Run run) {
  // Existing runs that overlap or touch the new run are merged into it.
  const auto first = std::lower_bound(runs.begin(), runs.end(), run.begin,
                                      [](const Run& other, u64 begin) { return other.end < begin; });
  auto last = first;
  for (; last != runs.end() && last->begin <= run.end; ++last) {
    run.begin = std::min(run.begin, last->begin);
    run.end = std::max(run.end, last->end);
  }
  if (first == last) {
    runs.insert(first, run);
    return;
  }
  *first = run;
  runs.erase(first + 1, last);
}

void Occupancy::take(Range range, u64 begin, u64 end) {
  CHECK(begin < end, begin, end);
  const Run run{begin, end};
  for_cover(range, [&](u64 n) {
    add(nodes_[n].throughout, run);
    add(nodes_[n].anywhere, run);
  });
  // Ancestors that lie below a node of the cover get the run too; it changes nothing there, as `throughout`
  // of the cover's node has it.
  for (const i32 position : {range.begin, range.end})
    for_ancestors(position, [&](u64 n) { add(nodes_[n].anywhere, run); });
}

u64 Occupancy::lowest_free(Range range, u64 offset, u64 bytes) const {
  std::array<const Runs*, lists_max> met;
  u64 count = 0;
  const auto look_at = [&](const Runs& runs) {
    if (runs.empty()) return;
    CHECK(count < met.size(), count);
    met[count++] = &runs;
  };
  for_cover(range, [&](u64 n) { look_at(nodes_[n].anywhere); });
  for (const i32 position : {range.begin, range.end})
    for_ancestors(position, [&](u64 n) { look_at(nodes_[n].throughout); });
  // Each list in turn moves the offset up, until all lists agree.
  for (u64 agreed = 0, i = 0; agreed < count; i = (i + 1) % count) {
    const Runs& runs = *met[i];
    ++agreed;
    auto run = std::upper_bound(runs.begin(), runs.end(), offset,
                                [](u64 at, const Run& other) { return at < other.end; });
    for (; run != runs.end() && run->begin < offset + bytes; ++run) {
      offset = run->end;
      agreed = 1;
    }
  }
  return offset;
}

}  // namespace tidepool
