#include "kernels/update/slot_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

void encode_codes(bool is_signed, std::span<const float> from, const BlockRandom* random, u32 slot,
                  float bound, std::byte* to) {
  if (random == nullptr) {
    u32 largest = 0;  // as bits, so that NaN is the largest
    for (const float x : from) largest = std::max(largest, std::bit_cast<u32>(std::fabs(x)));
    bound = std::bit_cast<float>(largest);
  }
  const float scale = scale_of_bound(bound), inverse = inverse_of_scale(scale);
  if (!(scale > 0)) bound = scale;
  std::memcpy(to, &bound, sizeof(bound));
  to += sizeof(bound);
  std::memset(to, 0, slot_block_elements);
  const Codes& codes = is_signed ? signed_codes : unsigned_codes;
  constexpr u32 half = 1u << (code_dropped_bits - 1);
  for (u32 i = 0; i < from.size(); ++i) {
    const u32 bits =
        random == nullptr ? half : random_of(random->of(spread_elements[i]), slot, code_dropped_bits);
    const float y = std::fabs(from[i]) * inverse + codes.c();
    const int code = static_cast<int>(is_signed ? codes.code(y, bits) : unsigned_code(from[i], y, bits));
    to[i] = static_cast<std::byte>(is_signed && std::signbit(from[i]) ? -code : code);
  }
}

}  // namespace

void decode_block(SlotFormat format, const std::byte* from, std::span<float> to) {
  CHECK(to.size() <= slot_block_elements, to.size());
  if (format == SlotFormat::f32) return static_cast<void>(std::memcpy(to.data(), from, to.size_bytes()));
  if (format == SlotFormat::bf16) {
    for (u64 i = 0; i < to.size(); ++i) {
      u16 half;
      std::memcpy(&half, from + 2 * i, sizeof(half));
      to[i] = float_from_bf16(half);
    }
    return;
  }
  CHECK(has_codes(format), static_cast<u32>(format));
  float bound;
  std::memcpy(&bound, from, sizeof(bound));
  from += sizeof(bound);
  const float scale = scale_of_bound(bound);
  for (u64 i = 0; i < to.size(); ++i) {
    const int code =
        format == SlotFormat::signed8 ? static_cast<signed char>(from[i]) : static_cast<u8>(from[i]);
    const float x = codes_of(format).value(static_cast<u32>(std::abs(code))) * scale;
    to[i] = code < 0 ? -x : x;
  }
}

void encode_block(SlotFormat format, std::span<const float> from, const BlockRandom* random, u32 slot,
                  float bound, std::byte* to) {
  CHECK(from.size() <= slot_block_elements, from.size());
  switch (format) {
    case SlotFormat::f32:
      std::memcpy(to, from.data(), from.size_bytes());
      return;
    case SlotFormat::bf16:
      for (u32 i = 0; i < from.size(); ++i) {
        const u16 half =
            random == nullptr
                ? bf16_from_float(from[i])
                : bf16_at_random(from[i], random_of(random->of(spread_elements[i]), slot, bf16_dropped_bits));
        std::memcpy(to + 2 * i, &half, sizeof(half));
      }
      return;
    case SlotFormat::signed8:
    case SlotFormat::unsigned8:
      return encode_codes(format == SlotFormat::signed8, from, random, slot, bound, to);
    case SlotFormat::remainder:
      break;
  }
  CHECK(false, static_cast<u32>(format));
}

void convert_slot(SlotFormat from_format, const std::byte* from, SlotFormat to_format, std::byte* to,
                  u64 elements) {
  std::array<float, slot_block_elements> values;
  for (u64 at = 0; at < elements; at += slot_block_elements) {
    const std::span<float> block = std::span(values).first(std::min<u64>(slot_block_elements, elements - at));
    decode_block(from_format, from + slot_bytes(from_format, at), block);
    encode_block(to_format, block, nullptr, 0, 0, to + slot_bytes(to_format, at));
  }
}

}  // namespace tidepool
