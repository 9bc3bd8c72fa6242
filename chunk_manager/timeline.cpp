// Implements the circle of stays: chooses stays, and places arcs at offsets.
#include "chunk_manager/timeline.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "chunk_manager/occupancy.h"

namespace tidepool {
namespace {

// Runs are the one or two runs of plain positions that a span covers; the second may be empty.
struct Runs {
  i32 begin[2], end[2];
  u32 count;

  Occupancy::Range range(u32 run) const { return {begin[run], end[run]}; }
};

Runs runs_of(Span span, i32 positions) {
  CHECK(span.end >= 0 && span.end < positions && span.begin <= span.end, span.begin, span.end, positions);
  CHECK(span.end - span.begin < positions, span.begin, span.end, positions);
  if (span.begin >= 0) return {{span.begin, positions}, {span.end, -1}, 1};
  return {{0, span.begin + positions}, {span.end, positions - 1}, 2};
}

}  // namespace

template <class Whole, class Part>
void CircleProfile::for_blocks(Span span, Whole&& whole, Part&& part) const {
  const Runs runs = runs_of(span, positions());
  for (u32 r = 0; r < runs.count; ++r) {
    const u64 end = static_cast<u64>(runs.end[r] + 1);
    for (u64 p = static_cast<u64>(runs.begin[r]); p < end;) {
      const u64 block = p / block_positions;
      const u64 block_end = std::min((block + 1) * block_positions, used_.size());
      if (p == block * block_positions && block_end <= end)
        whole(block);
      else
        part(block, p, std::min(block_end, end));
      p = block_end;
    }
  }
}

// Sums only grow, so a block's maximum is the old one or one of the changed sums: half of planning's time
// went into looking at all others.
void CircleProfile::add(Span span, Bytes bytes) {
  for_blocks(
      span,
      [&](u64 block) {
        blocks_[block].throughout += bytes.value;
        blocks_[block].most += bytes.value;
      },
      [&](u64 block, u64 begin, u64 end) {
        u64 most = 0;
        for (u64 p = begin; p < end; ++p) most = std::max(most, used_[p] += bytes.value);
        blocks_[block].most = std::max(blocks_[block].most, blocks_[block].throughout + most);
      });
}

void CircleProfile::remove(Span span, Bytes bytes) {
  const auto take = [&](u64& sum) {
    CHECK(sum >= bytes.value, span.begin, span.end, sum);
    sum -= bytes.value;
  };
  for_blocks(
      span,
      [&](u64 block) {
        take(blocks_[block].throughout);
        take(blocks_[block].most);
      },
      [&](u64 block, u64 begin, u64 end) {
        for (u64 p = begin; p < end; ++p) take(used_[p]);
        const u64 first = block * block_positions;
        const u64* used = used_.data();
        blocks_[block].most =
            blocks_[block].throughout +
            *std::max_element(used + first, used + std::min(first + block_positions, used_.size()));
      });
}

Bytes CircleProfile::peak(Span span) const {
  u64 most = 0;
  for_blocks(
      span, [&](u64 block) { most = std::max(most, blocks_[block].most); },
      [&](u64 block, u64 begin, u64 end) {
        u64 part = 0;
        for (u64 p = begin; p < end; ++p) part = std::max(part, used_[p]);
        most = std::max(most, part + blocks_[block].throughout);
      });
  return Bytes{most};
}

Bytes CircleProfile::peak() const {
  u64 most = 0;
  for (const Block& block : blocks_) most = std::max(most, block.most);
  return Bytes{most};
}

i32 CircleProfile::low_before(i32 position, i32 most, Bytes bytes) const {
  i32 count = 0;
  u64 end = wrap(position);  // of the positions that are left
  while (count < most) {
    if (end == 0) end = used_.size();
    const u64 block = (end - 1) / block_positions,
              wanted = std::min((end - 1) % block_positions + 1, static_cast<u64>(most - count));
    u64 low = wanted;
    if (blocks_[block].most > bytes.value) {
      low = 0;
      while (low < wanted && used_[end - 1 - low] + blocks_[block].throughout <= bytes.value) ++low;
    }
    count += static_cast<i32>(low);
    if (low < wanted) break;
    end -= low;
  }
  return count;
}

void Profile::add(Span span, Bytes bytes, FromRest has) {
  body_.add(span, bytes);
  if (from_rest_ && has != FromRest::absent) from_rest_->add(from_rest(span, has), bytes);
}

void Profile::remove(Span span, Bytes bytes, FromRest has) {
  body_.remove(span, bytes);
  if (from_rest_ && has != FromRest::absent) from_rest_->remove(from_rest(span, has), bytes);
}

Bytes Profile::peak(Span span, FromRest has) const {
  const Bytes most = body_.peak(span);
  if (!from_rest_ || has == FromRest::absent) return most;
  return std::max(most, from_rest_->peak(from_rest(span, has)));
}

Bytes Profile::peak() const { return from_rest_ ? std::max(body_.peak(), from_rest_->peak()) : body_.peak(); }

i32 Profile::room_before(Span span, i32 most, Bytes bytes, Bytes capacity, FromRest has) const {
  CHECK(has != FromRest::throughout);
  if (bytes > capacity) return 0;
  const i32 room = body_.low_before(span.begin, most, capacity - bytes);
  if (!from_rest_ || has == FromRest::absent) return room;
  return from_rest_->low_before(span.begin, room, capacity - bytes);
}

namespace {

bool homes_end(const std::vector<Arc>& arcs) {
  return std::any_of(arcs.begin(), arcs.end(),
                     [](const Arc& a) { return a.from_rest == FromRest::throughout; });
}

// Placer places arcs one by one at the lowest free offset.
class Placer {
 public:
  Placer(std::vector<Arc>& arcs, i32 positions) : arcs_(arcs), positions_(positions), body_(positions) {
    if (homes_end(arcs)) from_rest_.emplace(positions);
  }

  // Lowest offset free over the whole span, whatever the capacity.
  u64 lowest_offset(const Arc& arc, Span span) const {
    if (arc.permanent || arc.bytes.value == 0) return permanent_end_;
    const Pieces pieces = pieces_of(arc, span);
    u64 offset = permanent_end_;
    // An offset that is free for one piece may be taken for another.
    for (u32 agreed = 0, i = 0; agreed < pieces.count; i = (i + 1) % pieces.count) {
      const Occupancy& taken = pieces.all[i].from_rest ? *from_rest_ : body_;
      const u64 free = taken.lowest_free(pieces.all[i].range, offset, arc.bytes.value);
      agreed = free == offset ? agreed + 1 : 1;
      offset = free;
    }
    return offset;
  }

  void place(u32 a, Span span, u64 offset) {
    Arc& arc = arcs_[a];
    const u64 end = offset + arc.bytes.value;
    arc.placed = span;
    arc.offset = offset;
    highest_ = std::max(highest_, end);
    if (arc.permanent) {  // permanent arcs come first and lie at the bottom
      CHECK(offset == permanent_end_, offset, permanent_end_);
      permanent_end_ = end;
      return;
    }
    if (arc.bytes.value == 0) return;
    const Pieces pieces = pieces_of(arc, span);
    for (u32 i = 0; i < pieces.count; ++i)
      (pieces.all[i].from_rest ? *from_rest_ : body_).take(pieces.all[i].range, offset, end);
  }

  u64 highest() const { return highest_; }

 private:
  // Piece is a run of positions that an arc takes: one or two in a body, one or two in a turn from rest.
  struct Piece {
    bool from_rest = false;
    Occupancy::Range range;
  };
  struct Pieces {
    Piece all[4];
    u32 count = 0;
  };

  Pieces pieces_of(const Arc& arc, Span span) const {
    Pieces pieces;
    const auto add = [&](bool from_rest, Span of) {
      const Runs runs = runs_of(of, positions_);
      for (u32 r = 0; r < runs.count; ++r) pieces.all[pieces.count++] = {from_rest, runs.range(r)};
    };
    add(false, span);
    if (!from_rest_ || arc.from_rest == FromRest::absent) return pieces;
    add(true, arc.from_rest == FromRest::throughout ? Span{0, positions_ - 1} : span);
    return pieces;
  }

  std::vector<Arc>& arcs_;
  i32 positions_;
  Occupancy body_;  // above the permanent arcs
  // Only if homes end. Otherwise bytes that are free in a body are free in a turn from rest.
  std::optional<Occupancy> from_rest_;
  u64 permanent_end_ = 0;
  u64 highest_ = 0;
};

i32 length(Span span) { return span.end - span.begin + 1; }

// RETURNS: the `count` positions before a span.
Span before(Span span, i32 count, i32 positions) {
  const i32 turn = span.begin <= 0 ? positions : 0;
  return {span.begin - count + turn, span.begin - 1 + turn};
}

// Spans that arcs want: a tail, so that the next occupant need not wait for the copy out of the frame,
// and an early start. Both only as far as bytes allow; fills keep the order of need.
std::vector<Span> wanted_spans(const std::vector<Arc>& arcs, const PlaceOptions& options) {
  Profile profile(options.positions, homes_end(arcs));
  std::vector<Span> wanted(arcs.size());
  for (u32 a = 0; a < arcs.size(); ++a) {
    wanted[a] = arcs[a].span;
    profile.add(wanted[a], arcs[a].bytes, arcs[a].from_rest);
  }
  // Leaves a sixty-fourth for the gaps that placing makes.
  const Bytes capacity = options.capacity - options.capacity / 64;
  const auto room_at = [&](i32 position, const Arc& arc) {
    const i32 plain = position < 0 ? position + options.positions : position;
    return profile.peak({plain, plain}, arc.from_rest) + arc.bytes <= capacity;
  };
  for (u32 a = 0; a < arcs.size(); ++a)
    for (i32 i = 0; i < arcs[a].tail; ++i) {
      const i32 next = wanted[a].end + 1;
      if (next >= options.positions || length(wanted[a]) >= options.positions || !room_at(next, arcs[a]))
        break;
      wanted[a].end = next;
      profile.add({next, next}, arcs[a].bytes, arcs[a].from_rest);
    }
  // Begins up to `most` positions earlier.
  const auto widen = [&](Span& span, i32 most, const Arc& arc) {
    if (arc.from_rest != FromRest::throughout) {
      const i32 room = most <= 0 ? 0 : profile.room_before(span, most, arc.bytes, capacity, arc.from_rest);
      if (room > 0) profile.add(before(span, room, options.positions), arc.bytes, arc.from_rest);
      span.begin -= room;
      return;
    }
    while (most-- > 0 && room_at(span.begin - 1, arc)) {
      const Span one = before(span, 1, options.positions);
      profile.add(one, arc.bytes, arc.from_rest);
      --span.begin;
    }
  };
  // Order of need: circular from `start`, as absolute positions on an unrolled axis.
  std::vector<u32> order;
  for (u32 a = 0; a < arcs.size(); ++a)
    if (arcs[a].filled && !arcs[a].permanent) order.push_back(a);
  const auto turn = [&](i32 position) {
    i32 p = position;
    while (p < options.start) p += options.positions;
    return p;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](u32 a, u32 b) { return turn(arcs[a].span.begin) < turn(arcs[b].span.begin); });
  i32 not_before = options.start - options.positions;
  for (u32 a : order) {
    const Arc& arc = arcs[a];
    const i32 shift = turn(arc.span.begin) - arc.span.begin;
    const i32 most = std::min({options.lookahead > 0 ? options.lookahead : options.positions,
                               wanted[a].begin - std::max(arc.floor, not_before - shift),
                               options.positions - length(wanted[a])});
    widen(wanted[a], most, arc);
    not_before = wanted[a].begin + shift;
  }
  return wanted;
}

// Orders in which arcs are placed. Permanent arcs come first, then homes that end: these lie side by side,
// and content that waits for updates goes between them. Then
enum class PlaceOrder {
  streaming_last,  // arcs that are not filled, so that streaming arcs find one range above them
  by_size,         // the largest, so that small arcs do not break up room that large ones could take in turn
};

std::vector<u32> ordered(const std::vector<Arc>& arcs, const std::vector<Span>& wanted, PlaceOrder by) {
  std::vector<u32> order(arcs.size());
  std::iota(order.begin(), order.end(), 0);
  enum { permanent, home, other, streaming };
  const auto rank = [&](u32 a) {
    if (arcs[a].permanent) return permanent;
    if (arcs[a].from_rest == FromRest::throughout) return home;
    return arcs[a].filled && by == PlaceOrder::streaming_last ? streaming : other;
  };
  std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    const bool by_size = rank(a) == home || rank(a) == other;
    if (by_size && arcs[a].bytes != arcs[b].bytes) return arcs[a].bytes > arcs[b].bytes;
    return wanted[a].begin < wanted[b].begin;
  });
  return order;
}

// RETURNS: the highest end.
Bytes place_in_order(std::vector<Arc>& arcs, const std::vector<Span>& wanted, const std::vector<u32>& order,
                     const PlaceOptions& options) {
  Placer placer(arcs, options.positions);
  for (u32 a : order) {
    const Arc& arc = arcs[a];
    Span span = wanted[a];
    u64 offset = placer.lowest_offset(arc, span);
    // If it does not fit: drop the tail, then halve the early start until it fits.
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

}  // namespace

Bytes place_arcs(std::vector<Arc>& arcs, const PlaceOptions& options) {
  const std::vector<Span> wanted = wanted_spans(arcs, options);
  const Bytes end = place_in_order(arcs, wanted, ordered(arcs, wanted, PlaceOrder::streaming_last), options);
  if (end <= options.capacity) return end;
  std::vector<Arc> others = arcs;
  const Bytes other_end =
      place_in_order(others, wanted, ordered(others, wanted, PlaceOrder::by_size), options);
  if (other_end >= end) return end;
  arcs = std::move(others);
  return other_end;
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
  const auto fits = [&](const Stay& s) { return used.peak(s.span, s.from_rest) + s.bytes <= capacity; };
  const auto take = [&](u32 i) {
    used.add(stays[i].span, stays[i].bytes, stays[i].from_rest);
    taken[i] = 1;
  };
  const auto give_back = [&](u32 i) {
    used.remove(stays[i].span, stays[i].bytes, stays[i].from_rest);
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
