// Residency over the circle of one body: which chunks are in a tier from when to when, and where.
//
// A body is replayed for ever, so time is a circle of `positions` (one per program op). A stay of
// chunks in a tier is an arc of that circle. Because arcs close on themselves, the state after a
// body equals the state before it by construction. See docs/decisions/0001-one-circle.md.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// [begin, end], both used; end in [0, positions), begin in (end - positions, end]. A negative begin
// lies in the previous turn.
struct Span {
  i32 begin = 0;
  i32 end = 0;

  bool operator==(const Span&) const = default;
};

// What a turn that starts at rest has of an arc. Such turns (the first step, evaluation) have the body's arcs
// but for those of updates, and find every home full. So where a home is held for a part of the body only,
// what may share its bytes depends on both turns.
enum class FromRest : u8 {
  alike,       // the same as a body
  absent,      // nothing: it waits for an update
  throughout,  // all of the turn: a home, which a body holds over its span only
};

// Bytes in use at each position of a circle. Blocks of positions know their most, and what all of them have
// alike, so that long spans cost little: those of a thousand layers have 40 thousand positions.
class CircleProfile {
 public:
  explicit CircleProfile(i32 positions)
      : used_(static_cast<u64>(positions), 0), blocks_(div_up(used_.size(), block_positions)) {}

  void add(Span, Bytes);
  void remove(Span, Bytes);  // REQUIRES: that they were added, over the same span
  Bytes peak(Span) const;
  Bytes peak() const;
  Bytes at(i32 position) const {
    const u64 p = wrap(position);
    return Bytes{used_[p] + blocks_[p / block_positions].throughout};
  }
  i32 positions() const { return static_cast<i32>(used_.size()); }

 private:
  static constexpr u64 block_positions = 64;
  struct Block {
    u64 throughout = 0;  // at each of its positions
    u64 most = 0;        // of all, with that
  };

  u64 wrap(i32 position) const { return static_cast<u64>(position < 0 ? position + positions() : position); }
  // Of each block: its number, and [begin, end) where the span meets it.
  template <class Whole, class Part>
  void for_blocks(Span, Whole&&, Part&&) const;
  template <class Change>
  void change(Span, Change&&);

  std::vector<u64> used_;  // beside `throughout`
  std::vector<Block> blocks_;
};

// The same of a body and of a turn from rest. Of the latter only where homes end: else it never has more.
class Profile {
 public:
  explicit Profile(i32 positions, bool homes_end = false) : body_(positions) {
    if (homes_end) from_rest_.emplace(positions);
  }

  void add(Span, Bytes, FromRest = FromRest::alike);
  void remove(Span, Bytes, FromRest = FromRest::alike);  // REQUIRES: that they were added, alike
  // The most that what is so held would meet.
  Bytes peak(Span, FromRest = FromRest::alike) const;
  Bytes peak() const;
  Bytes at(i32 position) const { return body_.at(position); }  // of a body

 private:
  Span from_rest(Span span, FromRest has) const {
    return has == FromRest::throughout ? Span{0, body_.positions() - 1} : span;
  }

  CircleProfile body_;
  std::optional<CircleProfile> from_rest_;
};

// What several devices hold in one arc of the device tier, which is the same on all of them.
enum class Spread : u8 {
  each,   // chunks of its own: device d's begin d * count later
  copy,   // the same chunks on every device
  shard,  // the cuts that it owns: device d's begin d * count later, and there may be fewer of them
};

// Consecutive chunks that are in a tier together, side by side.
struct Arc {
  ChunkId first{};  // of several devices: device 0's
  u32 count = 1;
  Bytes bytes{};
  Span span;                   // least: first to last op that touches it
  i32 floor = -1'000'000'000;  // earliest position at which filling it makes sense
  i32 tail = 0;                // positions that it should stay on after the last op, where memory allows
  bool filled = false;         // by a copy or read: starting early hides the movement
  bool permanent = false;      // the whole circle
  Spread spread = Spread::each;
  FromRest from_rest = FromRest::alike;
  // Chosen by place_arcs.
  Span placed;
  u64 offset = 0;
};

struct PlaceOptions {
  i32 positions = 0;
  Bytes capacity{};
  i32 lookahead = 0;  // most positions that a fill may start early; 0: as far as memory allows
  i32 start = 0;      // position where the order of fills begins (they keep the order of need)
};

// Gives every arc an offset, and every filled arc the earliest start that memory allows, so that no
// two arcs overlap in both time and bytes. Returns the highest end, which may exceed the capacity:
// the caller then plans with less. Deterministic: ties break by position in `arcs`.
Bytes place_arcs(std::vector<Arc>& arcs, const PlaceOptions&);

// A reason to keep chunks where they are between two uses: the moves it saves.
struct Stay {
  Span span;
  Bytes bytes{};
  u64 saved_bytes = 0;  // moved bytes that it saves, over all links
  u32 group = none;     // stays of one chunk at different times
  bool whole = false;   // stands for all stays of its group, and more: it replaces them
  FromRest from_rest = FromRest::alike;
};

// Furthest next use, weighted by cost, made for a schedule known in full: stays are taken in the
// order of moved bytes saved per byte and position held, while the capacity lasts. Ties by index.
// `used` holds what is there already and gets what is chosen. Returns indices into `stays`.
std::vector<u32> choose_stays(const std::vector<Stay>& stays, Bytes capacity, Profile& used);

}  // namespace tidepool
