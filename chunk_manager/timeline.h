// Residency of chunks over the circle of one body: which chunks are in a tier, from when to when, and at
// which offset.
//
// A body is repeated without end, so time is a circle of `positions` (one per program op). A stay of chunks
// in a tier is an arc of that circle. Because arcs close on themselves, the state after a body equals the
// state before it by construction. See docs/decisions/0001-one-circle.md.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// Span is a range of positions [begin, end], both used. end is in [0, positions), begin in (end - positions,
// end]. A negative begin lies in the previous turn.
struct Span {
  i32 begin = 0;
  i32 end = 0;

  bool operator==(const Span&) const = default;
};

// FromRest says what a turn that starts at rest has of an arc. Such turns (the first step, evaluation) have
// the body's arcs except those of updates, and find every home full. So if a home is held for only a part of
// the body, both turns decide what may share its bytes.
enum class FromRest : u8 {
  alike,       // the same as a body
  absent,      // nothing: the arc waits for an update
  throughout,  // the whole turn: a home, which a body holds only over its span
};

// CircleProfile counts the bytes in use at each position of a circle. Each block of positions has its maximum
// and the bytes that all its positions have in common, so that long spans cost little: a thousand layers have
// 40 thousand positions.
class CircleProfile {
 public:
  explicit CircleProfile(i32 positions)
      : used_(static_cast<u64>(positions), 0), blocks_(div_up(used_.size(), block_positions)) {}

  void add(Span, Bytes);
  void remove(Span, Bytes);  // REQUIRES: added before, over the same span
  Bytes peak(Span) const;
  Bytes peak() const;
  // RETURNS: how many positions before this one, at most `most`, have no more than `bytes` each.
  i32 low_before(i32 position, i32 most, Bytes bytes) const;
  Bytes at(i32 position) const {
    const u64 p = wrap(position);
    return Bytes{used_[p] + blocks_[p / block_positions].throughout};
  }
  i32 positions() const { return static_cast<i32>(used_.size()); }

 private:
  static constexpr u64 block_positions = 64;
  struct Block {
    u64 throughout = 0;  // bytes at each of the block's positions
    u64 most = 0;        // maximum of its positions, `throughout` included
  };

  u64 wrap(i32 position) const { return static_cast<u64>(position < 0 ? position + positions() : position); }
  // Calls whole(block) for each block that the span covers, and part(block, begin, end) for the positions
  // [begin, end) of a block that it covers in part.
  template <class Whole, class Part>
  void for_blocks(Span, Whole&&, Part&&) const;

  std::vector<u64> used_;  // without Block::throughout
  std::vector<Block> blocks_;
};

// Profile is a CircleProfile of a body, and of a turn from rest if homes end. If no home ends, a turn from
// rest never has more bytes than a body.
class Profile {
 public:
  explicit Profile(i32 positions, bool homes_end = false) : body_(positions) {
    if (homes_end) from_rest_.emplace(positions);
  }

  void add(Span, Bytes, FromRest = FromRest::alike);
  void remove(Span, Bytes, FromRest = FromRest::alike);  // REQUIRES: added before, with the same arguments
  // Most bytes in use where content with this span and FromRest would be held.
  Bytes peak(Span, FromRest = FromRest::alike) const;
  Bytes peak() const;
  // RETURNS: how many positions before `span`, at most `most`, have room for `bytes` more up to `capacity`.
  // REQUIRES: not FromRest::throughout.
  i32 room_before(Span span, i32 most, Bytes bytes, Bytes capacity, FromRest = FromRest::alike) const;
  Bytes at(i32 position) const { return body_.at(position); }  // in a body

 private:
  Span from_rest(Span span, FromRest has) const {
    return has == FromRest::throughout ? Span{0, body_.positions() - 1} : span;
  }

  CircleProfile body_;
  std::optional<CircleProfile> from_rest_;
};

// Spread says what several replicas hold in one arc of the device tier. The arc is the same on all of them.
enum class Spread : u8 {
  each,   // chunks of the replica's own: replica r's begin r * count later
  copy,   // the same chunks on every replica
  shard,  // cuts that the replica owns (WindowChunks::shards), at most `count`
};

// Arc is a range of the circle during which consecutive chunks are in a tier, side by side.
struct Arc {
  ChunkId first{};  // with several devices: device 0's
  u32 count = 1;
  Bytes bytes{};
  Span span;                   // minimum: from the first to the last op that touches it
  i32 floor = -1'000'000'000;  // earliest position at which filling it makes sense
  i32 tail = 0;                // positions to stay on after the last op, if memory allows
  bool filled = false;         // by a copy or read: an early start hides the movement
  bool permanent = false;      // the whole circle
  Spread spread = Spread::each;
  FromRest from_rest = FromRest::alike;
  u32 device = 0;  // layers over devices: the only device that has it
  // Results of place_arcs().
  Span placed;
  u64 offset = 0;
};

struct PlaceOptions {
  i32 positions = 0;
  Bytes capacity{};
  i32 lookahead = 0;  // most positions that a fill may start early; 0: as many as memory allows
  i32 start = 0;      // position where the order of fills begins: fills keep the order of need
};

// Gives every arc an offset, and every filled arc the earliest start that memory allows, so that no two arcs
// overlap in both time and bytes. Deterministic: ties break by index in `arcs`.
// RETURNS: the highest end. It may exceed the capacity: then the caller must plan with less.
Bytes place_arcs(std::vector<Arc>& arcs, const PlaceOptions&);

// Stay is a reason to keep chunks in a tier between two uses: the moves that this saves.
struct Stay {
  Span span;
  Bytes bytes{};
  u64 saved_bytes = 0;  // bytes of moves that it saves, summed over all links
  u32 group = none;     // stays of one chunk at different times
  bool whole = false;   // covers all stays of its group, and more: it replaces them
  FromRest from_rest = FromRest::alike;
};

// Chooses stays as furthest-next-use eviction does, but weighted by cost, for a schedule that is known in
// full: in order of moved bytes saved per byte and position held, while the capacity lasts. Ties break by
// index. `used` holds the bytes already in use; the chosen stays are added to it.
// RETURNS: indices into `stays`.
std::vector<u32> choose_stays(const std::vector<Stay>& stays, Bytes capacity, Profile& used);

}  // namespace tidepool
