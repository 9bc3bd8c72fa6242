#include "chunk_manager/timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "tidepool/check.h"

namespace tidepool {
namespace {

// The one or two runs of plain positions that a span covers.
struct Runs {
  i32 begin[2], end[2];
  u32 count;
};

Runs runs_of(Span span, i32 positions) {
  CHECK(span.end >= 0 && span.end < positions && span.begin <= span.end, span.begin, span.end, positions);
  CHECK(span.end - span.begin < positions, span.begin, span.end, positions);
  if (span.begin >= 0) return {{span.begin, 0}, {span.end, 0}, 1};
  return {{0, span.begin + positions}, {span.end, positions - 1}, 2};
}

bool overlap(const Runs& x, const Runs& y) {
  for (u32 i = 0; i < x.count; ++i)
    for (u32 j = 0; j < y.count; ++j)
      if (x.begin[i] <= y.end[j] && y.begin[j] <= x.end[i]) return true;
  return false;
}

}  // namespace

void Profile::add(Span span, Bytes bytes) {
  const Runs runs = runs_of(span, positions());
  for (u32 r = 0; r < runs.count; ++r)
    for (i32 p = runs.begin[r]; p <= runs.end[r]; ++p) used_[static_cast<u64>(p)] += bytes.value;
}

void Profile::remove(Span span, Bytes bytes) {
  const Runs runs = runs_of(span, positions());
  for (u32 r = 0; r < runs.count; ++r)
    for (i32 p = runs.begin[r]; p <= runs.end[r]; ++p) {
      CHECK(used_[static_cast<u64>(p)] >= bytes.value, p);
      used_[static_cast<u64>(p)] -= bytes.value;
    }
}

Bytes Profile::peak(Span span) const {
  const Runs runs = runs_of(span, positions());
  u64 most = 0;
  for (u32 r = 0; r < runs.count; ++r)
    for (i32 p = runs.begin[r]; p <= runs.end[r]; ++p) most = std::max(most, used_[static_cast<u64>(p)]);
  return Bytes{most};
}

Bytes Profile::peak() const { return Bytes{*std::max_element(used_.begin(), used_.end())}; }

namespace {

using Ranges = std::vector<std::pair<u64, u64>>;

// By begin. Eleven bits at a time, least first: thousands of ranges for each of tens of thousands of arcs
// are what planning a large model takes its time for.
void sort_by_begin(Ranges& ranges, Ranges& scratch) {
  constexpr u64 few = 256, digit_bits = 11, digits = u64{1} << digit_bits;
  if (ranges.size() < few) return std::sort(ranges.begin(), ranges.end());
  u64 bits = 0;
  for (const auto& range : ranges) bits |= range.first;
  scratch.resize(ranges.size());
  for (u64 shift = 0; shift < 64 && bits >> shift != 0; shift += digit_bits) {
    if ((bits >> shift & (digits - 1)) == 0) continue;
    std::array<u32, digits + 1> at{};
    for (const auto& range : ranges) ++at[(range.first >> shift & (digits - 1)) + 1];
    std::partial_sum(at.begin(), at.end(), at.begin());
    for (const auto& range : ranges) scratch[at[range.first >> shift & (digits - 1)]++] = range;
    std::swap(ranges, scratch);
  }
}

// Places arcs one by one at the lowest free offset. What an arc conflicts with is alive at its begin, which
// buckets of positions know, or begins later within it: each is met once, however long it lives.
class Placer {
 public:
  Placer(std::vector<Arc>& arcs, i32 positions)
      : arcs_(arcs), positions_(positions), seen_(arcs.size(), 0), runs_(arcs.size()) {
    buckets_.resize(static_cast<u64>(div_up(static_cast<u64>(positions), bucket)));
    begins_.resize(static_cast<u64>(positions));
  }

  // Lowest offset free over the whole span, or capacity exceeded: returns the offset anyway.
  u64 lowest_offset(const Arc& arc, Span span) {
    gather(span);
    sort_by_begin(ranges_, scratch_);
    u64 offset = permanent_end_;
    for (const auto& [begin, end] : ranges_) {
      if (begin >= offset + arc.bytes.value) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  void place(u32 a, Span span, u64 offset) {
    Arc& arc = arcs_[a];
    arc.placed = span;
    arc.offset = offset;
    highest_ = std::max(highest_, offset + arc.bytes.value);
    if (arc.permanent) {  // they come first and lie at the bottom: no list needs them
      CHECK(offset == permanent_end_, offset, permanent_end_);
      permanent_end_ += arc.bytes.value;
      return;
    }
    runs_[a] = runs_of(span, positions_);
    for_buckets(span, [&](std::vector<u32>& list) { list.push_back(a); });
    for (u32 r = 0; r < runs_[a].count; ++r) begins_[static_cast<u64>(runs_[a].begin[r])].push_back(a);
  }

  u64 highest() const { return highest_; }

 private:
  static constexpr i32 bucket = 16;

  template <class Fn>
  void for_buckets(Span span, Fn&& fn) {
    const Runs runs = runs_of(span, positions_);
    i32 last = -1;
    for (u32 r = 0; r < runs.count; ++r)
      for (i32 b = std::max(runs.begin[r] / bucket, last + 1); b <= runs.end[r] / bucket; ++b) {
        fn(buckets_[static_cast<u64>(b)]);
        last = b;
      }
  }

  void gather(Span span) {
    ranges_.clear();
    ++stamp_;
    const Runs wanted = runs_of(span, positions_);
    const auto meet = [&](const std::vector<u32>& list) {
      for (u32 other : list) {
        if (seen_[other] == stamp_) continue;
        seen_[other] = stamp_;
        const Arc& o = arcs_[other];
        if (overlap(wanted, runs_[other])) ranges_.emplace_back(o.offset, o.offset + o.bytes.value);
      }
    };
    for (u32 r = 0; r < wanted.count; ++r) {
      meet(buckets_[static_cast<u64>(wanted.begin[r] / bucket)]);
      for (i32 p = wanted.begin[r] + 1; p <= wanted.end[r]; ++p) meet(begins_[static_cast<u64>(p)]);
    }
  }

  std::vector<Arc>& arcs_;
  i32 positions_;
  std::vector<std::vector<u32>> buckets_;
  std::vector<u32> seen_;
  u32 stamp_ = 0;
  std::vector<Runs> runs_;  // of placed arcs
  std::vector<std::vector<u32>> begins_;  // [position]
  Ranges ranges_, scratch_;
  u64 permanent_end_ = 0;
  u64 highest_ = 0;
};

i32 length(Span span) { return span.end - span.begin + 1; }

// What the arc would like: a tail, so that the next occupant need not wait for the copy out of it,
// and an early start. Both only as far as bytes allow; fills keep the order of need.
std::vector<Span> wish_spans(const std::vector<Arc>& arcs, const PlaceOptions& options) {
  Profile profile(options.positions);
  std::vector<Span> wish(arcs.size());
  for (u32 a = 0; a < arcs.size(); ++a) {
    wish[a] = arcs[a].span;
    profile.add(wish[a], arcs[a].bytes);
  }
  // A sixty-fourth is left to the gaps that placing makes.
  const Bytes capacity = options.capacity - options.capacity / 64;
  const auto room_at = [&](i32 position, const Arc& arc) {
    return profile.at(position) + arc.bytes <= capacity;
  };
  for (u32 a = 0; a < arcs.size(); ++a)
    for (i32 i = 0; i < arcs[a].tail; ++i) {
      const i32 next = wish[a].end + 1;
      if (next >= options.positions || length(wish[a]) >= options.positions || !room_at(next, arcs[a])) break;
      wish[a].end = next;
      profile.add({next, next}, arcs[a].bytes);
    }
  // Needs in circular order from `start`, as absolute positions on an unrolled axis.
  std::vector<u32> order;
  for (u32 a = 0; a < arcs.size(); ++a)
    if (arcs[a].filled && !arcs[a].permanent) order.push_back(a);
  const auto turn = [&](i32 position) {
    i32 p = position;
    while (p < options.start) p += options.positions;
    return p;
  };
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) {
    return turn(arcs[a].span.begin) < turn(arcs[b].span.begin);
  });
  i32 not_before = options.start - options.positions;
  for (u32 a : order) {
    const Arc& arc = arcs[a];
    const i32 shift = turn(arc.span.begin) - arc.span.begin;
    i32 steps = options.lookahead > 0 ? options.lookahead : options.positions;
    while (steps-- > 0) {
      const i32 next = wish[a].begin - 1;
      if (next < arc.floor || next + shift < not_before || length(wish[a]) >= options.positions) break;
      if (next <= wish[a].end - options.positions || !room_at(next, arc)) break;
      wish[a].begin = next;
      const i32 plain = next < 0 ? next + options.positions : next;
      profile.add({plain, plain}, arc.bytes);
    }
    not_before = wish[a].begin + shift;
  }
  return wish;
}

}  // namespace

Bytes place_arcs(std::vector<Arc>& arcs, const PlaceOptions& options) {
  const std::vector<Span> wish = wish_spans(arcs, options);
  std::vector<u32> order(arcs.size());
  std::iota(order.begin(), order.end(), 0);
  // What lies longest goes to the bottom, so that what streams finds one range above it; among
  // equals larger first, then in time.
  const auto rank = [&](u32 a) { return arcs[a].permanent ? 0 : arcs[a].filled ? 2 : 1; };
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (rank(a) == 1 && arcs[a].bytes != arcs[b].bytes) return arcs[a].bytes > arcs[b].bytes;
    return wish[a].begin < wish[b].begin;
  });
  Placer placer(arcs, options.positions);
  for (u32 a : order) {
    const Arc& arc = arcs[a];
    Span span = wish[a];
    u64 offset = placer.lowest_offset(arc, span);
    // Elastic: give up the tail, then half of the early start at a time.
    if (offset + arc.bytes.value > options.capacity.value && span.end != arc.span.end) {
      span.end = arc.span.end;
      offset = placer.lowest_offset(arc, span);
    }
    while (offset + arc.bytes.value > options.capacity.value && span.begin != arc.span.begin) {
      span.begin = arc.span.begin - (arc.span.begin - span.begin) / 2;
      offset = placer.lowest_offset(arc, span);
    }
    placer.place(a, span, offset);
  }
  return Bytes{placer.highest()};
}

std::vector<u32> choose_stays(const std::vector<Stay>& stays, Bytes capacity, Profile& used) {
  std::vector<u32> order(stays.size());
  std::iota(order.begin(), order.end(), 0);
  const auto density = [&](u32 i) {
    return static_cast<double>(stays[i].saved_bytes) /
           (static_cast<double>(stays[i].bytes.value) * length(stays[i].span));
  };
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return density(a) > density(b); });
  std::vector<u8> taken(stays.size(), 0);
  std::map<u32, std::vector<u32>> groups;  // taken stays
  const auto fits = [&](const Stay& s) { return used.peak(s.span) + s.bytes <= capacity; };
  const auto take = [&](u32 i) {
    used.add(stays[i].span, stays[i].bytes);
    taken[i] = 1;
  };
  const auto give_back = [&](u32 i) {
    used.remove(stays[i].span, stays[i].bytes);
    taken[i] = 0;
  };
  for (u32 i : order) {
    const Stay& stay = stays[i];
    if (stay.group == none) {
      if (fits(stay)) take(i);
      continue;
    }
    std::vector<u32>& group = groups[stay.group];
    if (!group.empty() && stays[group.front()].whole) continue;
    if (stay.whole) std::for_each(group.begin(), group.end(), give_back);
    if (fits(stay)) {
      take(i);
      if (stay.whole) group.clear();
      group.push_back(i);
    } else if (stay.whole) {
      std::for_each(group.begin(), group.end(), take);
    }
  }
  std::vector<u32> chosen;
  for (u32 i = 0; i < stays.size(); ++i)
    if (taken[i]) chosen.push_back(i);
  return chosen;
}

}  // namespace tidepool
