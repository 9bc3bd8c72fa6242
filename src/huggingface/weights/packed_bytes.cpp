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

// RETURNS: the largest value of a code, with room for rounding where products are rounded.
float code_max(Packing packing) {
  return packing == Packing::fp8_block ? 512 : packing == Packing::mxfp4 ? 6 : 1.02f;
}

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

// RETURNS: the largest scale whose values all are at most value_max.
float scale_max(const PackedSource& source) { return source.value_max / code_max(source.matrix.packing); }

// The error for a scale above scale_max(). `scale`: as the file has it.
Error too_large(const PackedSource& source, const Location& at, const std::string& scale, bool finite) {
  if (!finite || source.value_max == std::numeric_limits<float>::max())
    return not_finite(at, "the scale " + scale);
  return bad_input(
      fmt::format("{}: tensor {} holds the scale {}, which makes values beyond fp16's 65504, which "
                  "would become infinite; set precision=bf16",
                  at.file->path(), at.tensor->name, scale));
}

Result<void> check_scales(const PackedSource& source, const Location& at, std::span<const std::byte> bytes,
                          float most) {
  for (u64 i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    float scale;
    std::memcpy(&scale, bytes.data() + i, sizeof scale);
    if (!std::isfinite(scale) || std::fabs(scale) > most)
      return too_large(source, at, fmt::format("{}", scale), std::isfinite(scale));
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
  if (dtype != Dtype::u8) return check_scales(source, at, range.out, scale_max(source));
  if (source.matrix.packing != Packing::mxfp4) return {};
  for (const std::byte b : range.out)
    if (std::ldexp(1.0f, static_cast<u8>(b) - 127) > scale_max(source))
      return too_large(source, at, fmt::format("{}", static_cast<u8>(b)), true);
  return {};
}

Result<void> read_nested_scales(const PackedSource& source, const PartRange& range) {
  TRY(source.nested_scales.file->read(*source.nested_scales.tensor, range.begin, range.out));
  std::array<float, nested_codes> table;
  TRY(source.table.file->read(*source.table.tensor, 0, std::as_writable_bytes(std::span(table))));
  float largest = 0;
  for (const float x : table) largest = std::max(largest, std::fabs(x));
  // absmax is a scale times a value of the table, plus the offset.
  const float most = scale_max(source) - std::fabs(source.nested_offset);
  return check_scales(source, source.nested_scales, range.out, most / std::max(largest, 1e-30f));
}

Result<void> read_table(const PackedSource& source, const PartRange& range) {
  std::array<float, nested_codes + 1> table;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(table));
  TRY(source.table.file->read(*source.table.tensor, 0, bytes.first(nested_codes * sizeof(float))));
  table[nested_codes] = source.nested_offset;
  TRY(check_scales(source, source.table, bytes, scale_max(source)));
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
