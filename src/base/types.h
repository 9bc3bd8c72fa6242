// Number types of the project: ids and quantities that cannot be swapped by accident.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace tidepool {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

inline constexpr u64 kib = 1024;
inline constexpr u64 mib = 1024 * kib;
inline constexpr u64 gib = 1024 * mib;

// Index types. `index(id)` is the only way back to a number.
enum class ChunkId : u32 {};
enum class OpId : u32 {};  // position of an op in its segment

constexpr u32 index(ChunkId id) { return static_cast<u32>(id); }
constexpr u32 index(OpId id) { return static_cast<u32>(id); }

inline constexpr u32 none = 0xffff'ffff;  // "no block", "no window", "no micro-batch"

// Quantity is a number with a unit. Quantities of one unit add and compare; different units do not mix.
template <class Unit>
struct Quantity {
  u64 value = 0;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity o) const { return {value + o.value}; }
  constexpr Quantity operator-(Quantity o) const { return {value - o.value}; }
  constexpr Quantity operator*(u64 n) const { return {value * n}; }
  constexpr Quantity operator/(u64 n) const { return {value / n}; }
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
};
using Bytes = Quantity<struct BytesUnit>;
using Nanos = Quantity<struct NanosUnit>;

constexpr u64 div_up(u64 a, u64 b) { return (a + b - 1) / b; }
constexpr u64 round_up(u64 a, u64 to) { return div_up(a, to) * to; }

// O_DIRECT needs 4 KiB alignment, which is also the page size. Every frame starts and ends on a multiple.
inline constexpr u64 frame_alignment = 4 * kib;

}  // namespace tidepool
