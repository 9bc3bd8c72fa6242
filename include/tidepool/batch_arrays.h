// The arrays of a micro-batch: which there are, where they lie, and views of them.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/types.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

// The places [begin, end) of a row that a token does not see, although they lie behind the start of its
// document and before itself: other sequences that share its prompt. None if both are equal.
struct KeyHole {
  i32 begin = 0, end = 0;

  constexpr u32 length() const { return static_cast<u32>(end - begin); }
  // `place`: of a token.
  constexpr bool hides(u32 place) const { return place - static_cast<u32>(begin) < length(); }
  constexpr bool operator==(const KeyHole&) const = default;
};

// An array has an element for each place of a micro-batch, [B, T], or several; in memory they follow each
// other in this order.
enum class BatchArray : u8 {
  tokens,
  targets,
  starts,
  holes,
  table_tokens,
  sequences,
  values,
  references,
  old_logps,
  distributions
};
inline constexpr u32 batch_array_count = 10;

struct BatchArrayRow {
  std::string_view name;
  u32 element_bytes = 0;
};
inline constexpr std::array<BatchArrayRow, batch_array_count> batch_array_rows = {
    {{"tokens", sizeof(i32)},
     {"targets", sizeof(i32)},
     {"starts", sizeof(i32)},
     {"holes", sizeof(KeyHole)},
     {"table_tokens", sizeof(i32)},
     {"sequences", sizeof(i32)},
     {"values", sizeof(float)},
     {"references", sizeof(float)},
     {"old_logps", sizeof(float)},
     {"distributions", sizeof(float)}}};

// BatchList is the list of the arrays that a batch has, or that a block reads.
class BatchList {
 public:
  constexpr BatchList() = default;
  constexpr BatchList(std::initializer_list<BatchArray> arrays) {
    for (const BatchArray array : arrays) add(array);
  }
  constexpr void add(BatchArray array) { bits_ |= bit(array); }
  constexpr void add_distributions(u32 numbers) {
    add(BatchArray::distributions);
    distribution_numbers_ = numbers;
  }
  constexpr bool has(BatchArray array) const { return (bits_ & bit(array)) != 0; }
  constexpr bool has_any(const BatchList& others) const { return (bits_ & others.bits_) != 0; }
  // Elements of an array that a place has.
  constexpr u32 elements(BatchArray array) const {
    return array == BatchArray::distributions ? distribution_numbers_ : 1;
  }
  // Bytes from the beginning of a micro-batch to an array, and of all arrays.
  constexpr u64 offset(BatchArray array, u64 places) const {
    u64 bytes = 0;
    for (u32 i = 0; i < static_cast<u32>(array); ++i)
      if (const auto before = static_cast<BatchArray>(i); has(before))
        bytes += places * elements(before) * batch_array_rows[i].element_bytes;
    return bytes;
  }
  constexpr u64 bytes(u64 places) const { return offset(BatchArray{batch_array_count}, places); }

  constexpr bool operator==(const BatchList&) const = default;

 private:
  static constexpr u32 bit(BatchArray array) { return u32{1} << static_cast<u32>(array); }
  u32 bits_ = 0;
  u32 distribution_numbers_ = 0;
};

// Arrays as blocks read them; null: the batch does not have the array, or the block does not read it.
struct BatchView {
  const i32* tokens = nullptr;
  const i32* targets = nullptr;
  const i32* starts = nullptr;
  const KeyHole* holes = nullptr;
  // Tokens as the table of layers' inputs reads them: where its rows are looked up, their places (Lookup).
  const i32* table_tokens = nullptr;
  const i32* sequences = nullptr;
  const float* values = nullptr;
  const float* references = nullptr;
  const float* old_logps = nullptr;
  const float* distributions = nullptr;

  // RETURNS: the arrays from a row on. `distribution_numbers`: of a row.
  BatchView from_row(u64 row, u32 distribution_numbers) const {
    const auto at = [&](auto* array, u64 elements = 1) {
      return array == nullptr ? nullptr : array + row * elements;
    };
    return {
        at(tokens),    at(targets), at(starts),     at(holes),     at(table_tokens),
        at(sequences), at(values),  at(references), at(old_logps), at(distributions, distribution_numbers)};
  }
};

// Every array is [B, T]; the caller fills it. Empty places of a batch have token 0 and padding_target.
struct BatchArrays {
  std::span<i32> tokens;
  std::span<i32> targets;  // ignored_target, padding_target: no loss and no gradient
  // Packed documents only (BatchShape::packed), else empty: the place in the sequence where the token's
  // document begins. 0 0 0 3 3 3 are two documents of three tokens; a sequence of one document is all zeros.
  // Attention sees places starts[t] .. t, and the position of a token is t - starts[t].
  // REQUIRES: starts[t] <= t.
  std::span<i32> starts;
  // Batches whose sequences share prompts only, else empty: a prompt stands once, its completions behind it,
  // and attention does not see the hole between prompt and own completion. The hole's places do not count
  // for the position either. REQUIRES: starts[t] < begin <= end <= t, or begin == end.
  std::span<KeyHole> holes;
  // Objectives whose documents are units of sequences only, else empty; the caller has filled them
  // with zeros. At the place where a sequence begins, its number of places; negative if it is not the first
  // of its unit.
  std::span<i32> sequences;
  std::span<float> values;      // by the objective: a pair's margin, where the unit begins
  std::span<float> references;  // log-probability of the target by the reference model
  std::span<float> old_logps;   // log-probability at which the target was sampled
  // [B, T, numbers] what a teacher says of the target: log-probabilities, and the tokens that have them
  // (DivergenceRule::numbers()).
  std::span<float> distributions;

  // Row `row` of [B, T] arrays.
  BatchArrays row(u64 row, u32 length) const {
    const auto part = [&](auto all) {
      const u64 of_row = all.size() / tokens.size() * length;
      return all.empty() ? all : all.subspan(row * of_row, of_row);
    };
    return {part(tokens), part(targets),    part(starts),    part(holes),        part(sequences),
            part(values), part(references), part(old_logps), part(distributions)};
  }
  // Targets that count: units, or places with a loss.
  u64 counted_targets(bool count_places = false) const {
    return static_cast<u64>(sequences.empty() || count_places
                                ? std::ranges::count_if(targets, has_loss)
                                : std::ranges::count_if(sequences, [](i32 n) { return n > 0; }));
  }
};

// Makes places empty: no tokens. Leaves `starts` alone.
inline void make_empty(const BatchArrays& places) {
  std::ranges::fill(places.tokens, 0);
  std::ranges::fill(places.targets, padding_target);
  std::ranges::fill(places.sequences, 0);
}

}  // namespace tidepool
