// StateSlot is an array that training keeps beside the parameters of a chunk set, from step to step.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>

#include "base/check.h"
#include "tidepool/chunk.h"
#include "tidepool/update_rule.h"

namespace tidepool {

// How a slot's elements are stored. Formats of less than 32 bits are rounded at random, so that small changes
// of a state are not lost (kernels/update/slot_formats.h).
enum class SlotFormat : u8 {
  f32,
  remainder,  // i16: what an fp32 weight holds beyond its bf16 part; in files both together, as f32
  bf16,
  signed8,    // blocks of 256: a bound, f32, and codes, i8: floats with four bits of fraction
  unsigned8,  // the same with codes u8, of values that are not below 0
};
inline constexpr u32 slot_block_elements = 256;
inline constexpr u32 slot_block_bytes = sizeof(float) + slot_block_elements;

// SlotAxis says how many elements a slot has for a tensor. Only rules of whole tensors have rows and
// columns.
enum class SlotAxis : u8 {
  elements,  // one for each parameter
  rows,      // one for each row of a matrix
  columns,   // one for each column of a matrix, and for each parameter of a tensor that is none
};

inline constexpr u32 slot_axis_count = 3;

struct StateSlot {
  std::string_view name;         // in plans, reports and the state file
  std::string_view file_prefix;  // of tensors in optimizer.safetensors
  std::string_view meaning;      // for people
  char letter = '?';             // for bars without colour
  SlotFormat format = SlotFormat::f32;
  // Elements are stored in blocks: block_bytes for each block_elements. No tensor begins within a block.
  u32 block_elements = 1, block_bytes = 4;
  SlotAxis axis = SlotAxis::elements;
  std::string_view file_prefix_of_vectors;  // of tensors that are no matrix; empty: file_prefix

  bool operator==(const StateSlot&) const = default;
};

// StateSlots says which arrays chunk sets have beside their parameters, and how large each array is: slots of
// the precision first, then those of each update rule. A chunk set has those of the precision and of its
// rule.
//
// fp32 keeps no master: its `param` is the master.
// bf16 keeps `param` (the upper 16 bits) and `master_low` (the signed remainder); the pair is the exact fp32
// master.
// fp16 keeps the whole master in `master`, and `param` is its rounding. A 16-bit remainder would not be
// enough: too many floats round to the same half.
class StateSlots {
 public:
  StateSlots() = default;
  constexpr StateSlots(Precision precision, std::span<const StateSlot> optimizer_slots)
      : StateSlots(precision, std::span(&optimizer_slots, 1)) {}
  // `of_rules`: the slots of each rule. Rules with equal slots have the same ones.
  // REQUIRES: all slots together are at most state_slots_max, and the rules update_rules_max.
  constexpr StateSlots(Precision precision, std::span<const std::span<const StateSlot>> of_rules)
      : precision_(precision), rules_(static_cast<u32>(of_rules.size())) {
    CHECK(rules_ <= update_rules_max, rules_);
    if (precision == Precision::fp16)
      slots_[count_++] = {.name = "master",
                          .file_prefix = "master.",
                          .meaning = "fp32 weights, of which param is the rounding",
                          .letter = 'L'};
    if (precision == Precision::bf16)
      slots_[count_++] = {.name = "master_low",
                          .file_prefix = "master.",
                          .meaning = "what fp32 weights hold beyond their bf16 part",
                          .letter = 'L',
                          .format = SlotFormat::remainder,
                          .block_bytes = 2};
    of_precision_ = count_;
    for (u32 rule = 0; rule < rules_; ++rule) {
      first_[rule] = count_;
      for (u32 before = 0; before < rule && first_[rule] == count_; ++before)
        if (std::ranges::equal(of_rules[before], of_rules[rule])) first_[rule] = first_[before];
      end_[rule] = first_[rule] + static_cast<u32>(of_rules[rule].size());
      if (first_[rule] != count_) continue;
      for (const StateSlot& slot : of_rules[rule]) {
        CHECK(count_ < state_slots_max, count_);
        slots_[count_++] = slot;
      }
    }
  }

  constexpr Precision precision() const { return precision_; }
  constexpr u32 count() const { return count_; }
  constexpr const StateSlot& operator[](Kind kind) const { return slots_[slot_of(kind)]; }
  constexpr std::string_view name(Kind kind) const {
    return is_slot(kind) && has(kind) ? slots_[slot_of(kind)].name : tidepool::name(kind);
  }

  // The master is beside `param`; only 16 bits have one.
  constexpr bool has_master() const { return of_precision_ > 0; }
  // REQUIRES: has_master().
  constexpr Kind master() const { return state_kind(0); }
  // The rules' slots in their order, without the precision's.
  constexpr Kind optimizer_slot(u32 number) const { return state_kind(of_precision_ + number); }
  constexpr bool is_optimizer_slot(Kind kind) const {
    return is_slot(kind) && slot_of(kind) >= of_precision_;
  }
  constexpr bool is_master(Kind kind) const { return has_master() && kind == master(); }

  // True if training has chunks of this kind; only slots and `grad` depend on precision and rule.
  constexpr bool has(Kind kind) const {
    if (is_slot(kind)) return slot_of(kind) < count_;
    return kind != Kind::grad || precision_ != Precision::fp32;
  }
  // True if chunk sets of a rule have chunks of this kind.
  constexpr bool has(u32 rule, Kind kind) const {
    if (!is_optimizer_slot(kind)) return has(kind);
    return slot_of(kind) >= first_[rule] && slot_of(kind) < end_[rule];
  }
  // An update finds the finished gradient here: in fp32 the sum is the gradient.
  constexpr Kind gradient() const { return has(Kind::grad) ? Kind::grad : Kind::grad_accum; }

  // The slots of a rule's chunk sets alone, which are then those of rule 0.
  constexpr StateSlots of_rule(u32 rule) const {
    const std::span<const StateSlot> slots = all().subspan(first_[rule], end_[rule] - first_[rule]);
    return {precision_, slots};
  }

  // Calls fn(Kind) for each slot; for those of a rule's chunk sets, in the order of an update's operands; and
  // for the slots of rules without the precision's.
  template <class Fn>
  constexpr void each(Fn&& fn) const {
    for (u32 i = 0; i < count_; ++i) fn(state_kind(i));
  }
  template <class Fn>
  constexpr void each_of_rule(u32 rule, Fn&& fn) const {
    each_of_part(rule, UpdatePart::whole, fn);
  }
  // The slots that a part of an update changes.
  template <class Fn>
  constexpr void each_of_part(u32 rule, UpdatePart part, Fn&& fn) const {
    if (part != UpdatePart::direction)
      for (u32 i = 0; i < of_precision_; ++i) fn(state_kind(i));
    if (part != UpdatePart::step)
      for (u32 i = first_[rule]; i < end_[rule]; ++i) fn(state_kind(i));
  }
  template <class Fn>
  constexpr void each_optimizer_slot(Fn&& fn) const {
    for (u32 i = of_precision_; i < count_; ++i) fn(state_kind(i));
  }

  // RETURNS: how elements of the kind are counted.
  constexpr SlotAxis axis(Kind kind) const {
    return is_slot(kind) ? slots_[slot_of(kind)].axis : SlotAxis::elements;
  }
  // Bytes of so many elements of a kind that follows a window's cuts: whole blocks.
  constexpr u64 bytes(Kind kind, u64 elements) const {
    const Block block = block_of(kind);
    return div_up(elements, block.elements) * block.bytes;
  }
  // Bytes of a chunk: whole pages. Zeros follow the elements.
  constexpr u64 chunk_bytes(Kind kind, u64 elements) const {
    return round_up(bytes(kind, elements), frame_alignment);
  }
  // RETURNS: how many elements of a kind fill so many bytes. REQUIRES: whole blocks.
  constexpr u64 elements(Kind kind, u64 bytes) const {
    const Block block = block_of(kind);
    return bytes / block.bytes * block.elements;
  }
  // Tensors of a rule begin on multiples of this in a window.
  constexpr u64 block_elements(u32 rule) const {
    u64 elements = 1;
    each_of_rule(rule, [&](Kind slot) { elements = std::lcm(elements, block_of(slot).elements); });
    return elements;
  }
  // Cuts fall on multiples of this: whole blocks of every kind.
  constexpr u64 cut_alignment() const {
    u64 alignment = cut_alignment_elements;
    for (u32 i = 0; i < count_; ++i) alignment = std::lcm(alignment, slots_[i].block_elements);
    return alignment;
  }

  // Units of updates begin on multiples of this: whole granules of the gradient's norm, so that each granule
  // has one owner.
  constexpr u64 unit_alignment() const { return std::lcm(norm_granule_elements, cut_alignment()); }

  constexpr bool operator==(const StateSlots& other) const {
    return precision_ == other.precision_ && rules_ == other.rules_ && first_ == other.first_ &&
           end_ == other.end_ && std::ranges::equal(all(), other.all());
  }

 private:
  struct Block {
    u64 elements, bytes;
  };
  constexpr Block block_of(Kind kind) const {
    if (is_slot(kind)) return {slots_[slot_of(kind)].block_elements, slots_[slot_of(kind)].block_bytes};
    return {1, kind == Kind::param || kind == Kind::grad ? value_bytes(precision_) : sizeof(float)};
  }
  constexpr std::span<const StateSlot> all() const { return std::span(slots_).first(count_); }

  Precision precision_ = Precision::fp32;
  u32 count_ = 0, rules_ = 0, of_precision_ = 0;
  std::array<u32, update_rules_max> first_{}, end_{};  // slots of each rule
  std::array<StateSlot, state_slots_max> slots_{};
};

}  // namespace tidepool
