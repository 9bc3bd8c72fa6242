// Packed matrices for tests: golden ones of the reference implementations, random ones, and plain double code
// that unpacks them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/support/safetensors.h"
#include "tidepool/packing.h"

namespace tidepool::test {

using Runs = std::vector<std::vector<std::byte>>;

struct GoldenMatrix {
  std::string name;
  PackedMatrix matrix;
  Runs runs;                // one per expert
  std::vector<u16> values;  // bf16, of all experts
};

inline void copy_part(const PackedMatrix& m, PackedPart part, const void* from, std::vector<std::byte>& to) {
  to.resize(packed_bytes(m));
  std::memcpy(to.data() + part_begin(m, part), from, part_bytes(m, part));
}

inline std::string golden_packed_file(std::string_view format) {
  return source_file("tests/golden/packed/").append(format) + ".safetensors";
}

inline GoldenMatrix golden_bytes(const Safetensors& file, const std::string& name, const std::string& scales,
                                 const PackedMatrix& m) {
  GoldenMatrix out = {
      .name = name, .matrix = m, .runs = Runs(1), .values = file.get<u16>("expected/" + name)};
  copy_part(m, PackedPart::codes, file.get<u8>(name).data(), out.runs[0]);
  std::vector<float> wide = file.get<float>(scales);
  if (file.get<u8>(scales).size() == 2 * packed_scales(m)) {  // bf16
    wide.clear();
    for (const u16 half : file.get<u16>(scales)) wide.push_back(std::bit_cast<float>(u32{half} << 16));
  }
  copy_part(m, PackedPart::scales, wide.data(), out.runs[0]);
  return out;
}

inline GoldenMatrix golden_mxfp4(const Safetensors& file, const std::string& name, u32 experts, u32 rows,
                                 u32 groups) {
  const PackedMatrix m = {.packing = Packing::mxfp4, .rows = rows, .columns = 32 * groups};
  GoldenMatrix out = {.name = name, .matrix = m, .runs = {}, .values = file.get<u16>("expected/" + name)};
  const std::vector<u8> blocks = file.get<u8>(name + "_blocks"), scales = file.get<u8>(name + "_scales");
  for (u32 e = 0; e < experts; ++e) {
    out.runs.emplace_back();
    copy_part(m, PackedPart::codes, blocks.data() + e * part_bytes(m, PackedPart::codes), out.runs[e]);
    copy_part(m, PackedPart::scales, scales.data() + e * part_bytes(m, PackedPart::scales), out.runs[e]);
  }
  return out;
}

inline GoldenMatrix golden_nf4(const Safetensors& file, const std::string& name, PackedMatrix m) {
  const bool nested = file.has(name + ".nested_absmax");
  m.packing = nested ? Packing::nf4_double : Packing::nf4;
  m.nested_block = nested ? 256 : 0;
  GoldenMatrix out = {
      .name = name, .matrix = m, .runs = Runs(1), .values = file.get<u16>("expected/" + name)};
  copy_part(m, PackedPart::codes, file.get<u8>(name).data(), out.runs[0]);
  copy_part(m, PackedPart::scales, file.get<u8>(name + ".absmax").data(), out.runs[0]);
  if (!nested) return out;
  copy_part(m, PackedPart::nested_scales, file.get<float>(name + ".nested_absmax").data(), out.runs[0]);
  std::vector<float> table = file.get<float>(name + ".nested_quant_map");
  const std::vector<u8> bytes = file.get<u8>(name + ".quant_state.bitsandbytes__nf4");
  const auto state = boost::json::parse(std::string(bytes.begin(), bytes.end()));
  table.push_back(static_cast<float>(state.at("nested_offset").as_double()));
  copy_part(m, PackedPart::table, table.data(), out.runs[0]);
  return out;
}

// All matrices of tests/golden/packed, put together without the product's reader.
inline std::vector<GoldenMatrix> golden_matrices() {
  const Safetensors fp8(golden_packed_file("fp8")), mxfp4(golden_packed_file("mxfp4")),
      nf4(golden_packed_file("nf4")), int8(golden_packed_file("int8"));
  const auto blocks = [](u32 rows, u32 columns, u32 block_rows, u32 block_columns) {
    return PackedMatrix{.packing = Packing::fp8_block,
                        .rows = rows,
                        .columns = columns,
                        .block_rows = block_rows,
                        .block_columns = block_columns};
  };
  const auto rows = [](u32 rows, u32 columns) {
    return PackedMatrix{.packing = Packing::int8_row, .rows = rows, .columns = columns};
  };
  return {golden_bytes(fp8, "published.weight", "published.weight_scale_inv", blocks(130, 136, 128, 128)),
          golden_bytes(fp8, "small_blocks.weight", "small_blocks.weight_scale_inv", blocks(20, 40, 16, 32)),
          golden_bytes(fp8, "wide.weight", "wide.weight_scale_inv", blocks(3, 300, 128, 128)),
          golden_mxfp4(mxfp4, "gate_up", 3, 6, 2),
          golden_mxfp4(mxfp4, "every_scale", 1, 11, 23),
          golden_nf4(nf4, "single.weight", {.rows = 48, .columns = 70, .block = 64}),
          golden_nf4(nf4, "odd.weight", {.rows = 7, .columns = 9, .block = 64}),
          golden_nf4(nf4, "large_blocks.weight", {.rows = 9, .columns = 512, .block = 4096}),
          golden_nf4(nf4, "double.weight", {.rows = 70, .columns = 130, .block = 32}),
          golden_nf4(nf4, "double_short.weight", {.rows = 10, .columns = 24, .block = 64}),
          golden_bytes(int8, "rows.weight", "rows.SCB", rows(9, 33)),
          golden_bytes(int8, "one_row.weight", "one_row.SCB", rows(1, 64)),
          golden_nf4(nf4, "double_ties.weight", {.rows = 16, .columns = 64, .block = 64}),
          golden_bytes(int8, "ties.weight", "ties.SCB", rows(8, 255))};
}

// Shapes that are whole vectors and blocks, and shapes that are not.
inline std::vector<PackedMatrix> odd_matrices() {
  std::vector<PackedMatrix> out;
  for (const auto& [rows, columns] :
       std::vector<std::pair<u32, u32>>{{1, 1}, {3, 7}, {5, 64}, {33, 40}, {17, 263}}) {
    out.push_back({.packing = Packing::fp8_block,
                   .rows = rows,
                   .columns = columns,
                   .block_rows = 128,
                   .block_columns = 128});
    out.push_back({.packing = Packing::fp8_block,
                   .rows = rows,
                   .columns = columns,
                   .block_rows = 4,
                   .block_columns = 24});
    out.push_back({.packing = Packing::nf4, .rows = rows, .columns = columns, .block = 64});
    out.push_back(
        {.packing = Packing::nf4_double, .rows = rows, .columns = columns, .block = 32, .nested_block = 256});
    out.push_back(
        {.packing = Packing::nf4_double, .rows = rows, .columns = columns, .block = 64, .nested_block = 4});
    out.push_back({.packing = Packing::int8_row, .rows = rows, .columns = columns});
    out.push_back(
        {.packing = Packing::mxfp4, .rows = rows, .columns = static_cast<u32>(round_up(columns, 32))});
  }
  return out;
}

// Any codes, NaN among them, and finite scales.
inline std::vector<std::byte> random_packed(const PackedMatrix& m, u32 seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(packed_bytes(m));
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  const auto fill = [&](PackedPart part, float low, float high) {
    std::uniform_real_distribution<float> scale(low, high);
    for (u64 i = 0; i < part_bytes(m, part) / sizeof(float); ++i) {
      const float x = scale(random);
      std::memcpy(out.data() + part_begin(m, part) + i * sizeof(float), &x, sizeof x);
    }
  };
  const bool bytes_as_scales = m.packing == Packing::mxfp4 || m.packing == Packing::nf4_double;
  if (!bytes_as_scales) fill(PackedPart::scales, 1e-4f, 1e-2f);
  fill(PackedPart::nested_scales, 0.1f, 0.2f);
  fill(PackedPart::table, -1.0f, 1.0f);
  return out;
}

inline double plain_e4m3(u32 code) {
  const u32 exponent = code >> 3 & 15, fraction = code & 7;
  if ((code & 0x7f) == 0x7f) return NAN;
  const double value =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, int(exponent) - 10);
  return code < 128 ? value : -value;
}

// Code books, written down once more.
inline double plain_mxfp4(u32 code) {
  const double value = std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, 6}[code & 7];
  return code < 8 ? value : -value;
}
inline double plain_nf4(u32 code) {
  return std::vector<double>{-1,
                             -0.6961928009986877,
                             -0.5250730514526367,
                             -0.39491748809814453,
                             -0.28444138169288635,
                             -0.18477343022823334,
                             -0.09105003625154495,
                             0,
                             0.07958029955625534,
                             0.16093020141124725,
                             0.24611230194568634,
                             0.33791524171829224,
                             0.44070982933044434,
                             0.5626170039176941,
                             0.7229568362236023,
                             1}[code];
}

// The exact values, before any rounding but that of a nested absmax; infinite from bf16's limit on.
inline std::vector<double> plain_values(const PackedMatrix& m, const std::vector<std::byte>& packed) {
  const auto byte = [&](PackedPart part, u64 i) { return u32(packed[part_begin(m, part) + i]); };
  const auto number = [&](PackedPart part, u64 i) {
    float x;
    std::memcpy(&x, packed.data() + part_begin(m, part) + i * sizeof x, sizeof x);
    return x;
  };
  const auto absmax = [&](u64 block) -> double {
    if (m.packing == Packing::nf4) return number(PackedPart::scales, block);
    const float product = number(PackedPart::table, byte(PackedPart::scales, block)) *
                          number(PackedPart::nested_scales, block / m.nested_block);
    return product + number(PackedPart::table, 256);
  };
  const auto value = [&](u64 i) -> double {
    const u64 row = i / m.columns, column = i % m.columns;
    const bool one_code_per_byte = m.packing == Packing::fp8_block || m.packing == Packing::int8_row;
    const u32 codes = byte(PackedPart::codes, one_code_per_byte ? i : i / 2);
    switch (m.packing) {
      case Packing::fp8_block:
        return plain_e4m3(codes) *
               number(PackedPart::scales,
                      row / m.block_rows * div_up(m.columns, m.block_columns) + column / m.block_columns);
      case Packing::mxfp4: {
        const u32 scale = byte(PackedPart::scales, i / 32);
        const double power = scale == 255 ? INFINITY : std::ldexp(1.0, int(scale) - 127);
        return plain_mxfp4(i % 2 == 0 ? codes & 15 : codes >> 4) * power;
      }
      case Packing::int8_row:
        return double(static_cast<int8_t>(codes)) * number(PackedPart::scales, row) / 127;
      default:
        return plain_nf4(i % 2 == 0 ? codes >> 4 : codes & 15) * absmax(i / m.block);
    }
  };
  std::vector<double> out;
  for (u64 i = 0; i < m.elements(); ++i) {
    const double x = value(i);
    out.push_back(std::abs(x) >= 0x1.ffp127 ? std::copysign(INFINITY, x) : x);
  }
  return out;
}

}  // namespace tidepool::test
