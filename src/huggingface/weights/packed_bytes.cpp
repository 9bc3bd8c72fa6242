// Fills the bytes of packed matrices from their tensors, and refuses numbers that are not finite.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/packed_tensors.h"

namespace tidepool {
namespace {

using Location = SafetensorsModel::Location;

// From 253 on, 6 times the power of two is infinite in bf16.
constexpr u8 mxfp4_scale_max = 252;
// The largest value of a code is 448 in e4m3, and at most 1.01 in the others.
constexpr float scale_max = std::numeric_limits<float>::max() / 512;

Error not_finite(const Location& at, std::string_view what) {
  return bad_input(
      fmt::format("{}: tensor {} holds {}, which makes weights that are not finite: name a model whose "
                  "weights are all finite",
                  at.file->path(), at.tensor->name, what));
}

Result<void> check_codes(const PackedSource& source, std::span<const std::byte> bytes) {
  if (source.matrix.packing != Packing::fp8_block) return {};
  bool any = false;
  for (const std::byte b : bytes) any |= (b & std::byte{0x7f}) == std::byte{0x7f};
  if (any) return not_finite(source.codes, "a NaN");
  return {};
}

Result<void> check_scales(const Location& at, std::span<const std::byte> bytes) {
  for (u64 i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    float scale;
    std::memcpy(&scale, bytes.data() + i, sizeof scale);
    if (!(std::fabs(scale) <= scale_max)) return not_finite(at, fmt::format("the scale {}", scale));
  }
  return {};
}

// A part of a matrix, or the range of it that is asked for.
struct PartRange {
  u64 part_bytes = 0;  // of one expert
  u64 begin = 0;
  std::span<std::byte> out;
};

Result<void> read_codes(const PackedSource& source, u32 expert, const PartRange& range) {
  TRY(source.codes.file->read(*source.codes.tensor, expert * range.part_bytes + range.begin, range.out));
  return check_codes(source, range.out);
}

Result<void> read_scales(const PackedSource& source, u32 expert, const PartRange& range) {
  const Location& at = source.scales;
  const u64 begin = expert * range.part_bytes + range.begin;
  const Dtype dtype = at.tensor->dtype;
  if (dtype == Dtype::u8 || dtype == Dtype::f32) {
    TRY(at.file->read(*at.tensor, begin, range.out));
  } else {
    std::vector<float> wide(range.out.size() / sizeof(float));
    std::vector<std::byte> halves(range.out.size() / 2);
    TRY(at.file->read(*at.tensor, begin / 2, halves));
    to_floats(dtype, halves, wide);
    std::memcpy(range.out.data(), wide.data(), range.out.size());
  }
  if (dtype != Dtype::u8) return check_scales(at, range.out);
  if (source.matrix.packing != Packing::mxfp4) return {};
  for (const std::byte b : range.out)
    if (static_cast<u8>(b) > mxfp4_scale_max)
      return not_finite(at, fmt::format("the scale {}", static_cast<u8>(b)));
  return {};
}

Result<void> read_nested_scales(const PackedSource& source, const PartRange& range) {
  TRY(source.nested_scales.file->read(*source.nested_scales.tensor, range.begin, range.out));
  return check_scales(source.nested_scales, range.out);
}

Result<void> read_table(const PackedSource& source, const PartRange& range) {
  std::array<float, nested_codes + 1> table;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(table));
  TRY(source.table.file->read(*source.table.tensor, 0, bytes.first(nested_codes * sizeof(float))));
  table[nested_codes] = source.nested_offset;
  TRY(check_scales(source.table, bytes));
  std::ranges::copy(bytes.subspan(range.begin, range.out.size()), range.out.begin());
  return {};
}

Result<void> read_part(const PackedSource& source, u32 expert, PackedPart part, const PartRange& range) {
  switch (part) {
    case PackedPart::codes:
      return read_codes(source, expert, range);
    case PackedPart::scales:
      return read_scales(source, expert, range);
    case PackedPart::nested_scales:
      return read_nested_scales(source, range);
    case PackedPart::table:
      return read_table(source, range);
  }
  return {};
}

}  // namespace

Result<void> read_packed(const PackedSource& source, u32 expert, u64 begin, std::span<std::byte> out) {
  const PackedMatrix& m = source.matrix;
  const u64 end = begin + out.size();
  CHECK(m.packing != Packing::none);
  CHECK(begin % packed_alignment == 0 && out.size() % packed_alignment == 0 && end <= packed_bytes(m), begin,
        out.size(), packed_bytes(m));
  for (u32 p = 0; p < packed_part_count; ++p) {
    const PackedPart part = static_cast<PackedPart>(p);
    const u64 bytes = part_bytes(m, part), first = part_begin(m, part), last = first + bytes;
    const u64 padded = first + round_up(bytes, packed_alignment);
    if (begin >= padded || end <= first) continue;
    const u64 from = std::max(begin, first), to = std::min(end, padded), data = std::min(to, last);
    TRY(read_part(
        source, expert, part,
        {.part_bytes = bytes, .begin = from - first, .out = out.subspan(from - begin, data - from)}));
    std::ranges::fill(out.subspan(data - begin, to - data), std::byte{0});
  }
  return {};
}

}  // namespace tidepool
