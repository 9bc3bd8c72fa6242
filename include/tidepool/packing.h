// Packing is a format in which a frozen matrix keeps the bytes that it was published in, on every tier and
// link. A kernel unpacks the matrix on the device just before a product reads it (kernels/unpack). This
// header says how the bytes lie in memory; the published tensors are read by
// huggingface/weights/packed_tensors.h.
//
// One matrix is one run of bytes: its parts in the order of PackedPart, each aligned to 64 bytes, zeros
// between them. So a matrix is cut out of a window with an offset, and the experts of a fused tensor are runs
// of equal size, one after the other.
//
// A matrix's value is the reference implementation's, rounded once to bf16 (to nearest, ties to even). All
// steps before are in fp32, each rounded, in this order (versions: tests/golden/packed):
//
//   fp8_block   bf16(code * scale), the code cast to fp32
//               (transformers, Fp8Dequantize._dequantize_one)
//   mxfp4       bf16(code * 2^(scale - 127)), exact but for overflow
//               (transformers, convert_moe_packed_tensors: torch.ldexp on bf16, which computes in fp32)
//   nf4         bf16(code * absmax)
//               (bitsandbytes, dequantize_4bit)
//   nf4_double  the same; absmax = map[u8] * nested_absmax + offset, product and sum rounded
//               (bitsandbytes, dequantize_4bit with a nested state)
//   int8_row    bf16((code * absmax) * fp32(1/127)); the factor is 7.874015718698502e-3, nothing is divided
//               (bitsandbytes, int8_vectorwise_dequant)
//
// bitsandbytes rounds to the dtype that its quant_state names. For a file that names float16 or float32,
// Tidepool rounds the fp32 product to bf16 all the same.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

enum class Packing : u8 {
  none,        // numbers in the run's precision
  fp8_block,   // e4m3fn, and a scale per block of rows and columns (DeepSeek-V3, Qwen3 FP8)
  mxfp4,       // e2m1, and a power of two per 32 values of a row (gpt-oss)
  nf4,         // 16 quantiles of the normal distribution, and the largest magnitude per block (QLoRA)
  nf4_double,  // the same, and the largest magnitudes are quantized too
  int8_row,    // integers, and the largest magnitude per row (LLM.int8)
};
inline constexpr u32 packing_count = 6;

inline constexpr std::array<std::string_view, packing_count> packing_names = {
    "none", "fp8_block", "mxfp4", "nf4", "nf4_double", "int8_row"};
constexpr std::string_view name(Packing packing) { return packing_names[static_cast<u32>(packing)]; }

// Numbers that a format has always.
inline constexpr u32 mxfp4_block = 32;
inline constexpr u32 nf4_codes = 16, nested_codes = 256;
// Block sizes of bitsandbytes, which config.json does not name.
inline constexpr u32 nf4_block = 64, nf4_nested_block = 256;

// The code books, by code.
inline constexpr float mxfp4_values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                           -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
// Dettmers et al., QLoRA, arXiv:2305.14314, appendix E.
inline constexpr float nf4_values[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

// Shape and block sizes of one packed matrix.
struct PackedMatrix {
  Packing packing = Packing::none;
  u32 rows = 0, columns = 0;              // [out, in]. mxfp4: columns are a multiple of 32
  u32 block_rows = 0, block_columns = 0;  // fp8_block: of a scale, usually 128 x 128; the last may be cut
  u32 block = 0;  // nf4: elements per absmax, in the flattened matrix; a power of two from 32 on, usually 64
  u32 nested_block = 0;  // nf4_double: values of absmax per nested_absmax; a power of two, usually 256

  constexpr u64 elements() const { return u64{rows} * columns; }
  bool operator==(const PackedMatrix&) const = default;
};

enum class PackedPart : u8 {
  codes,   // fp8_block u8 [out, in]; int8_row i8 [out, in]; mxfp4 u8 [out, in/32, 16], low nibble first;
           // nf4 u8 [ceil(out in / 2)], high nibble first
  scales,  // fp8_block fp32 [ceil(out / block_rows), ceil(in / block_columns)]; mxfp4 u8 [out, in/32];
           // nf4 fp32 [ceil(out in / block)]: absmax; nf4_double u8 [ceil(out in / block)]; int8_row fp32
           // [out]
  nested_scales,  // nf4_double fp32 [ceil(scales / nested_block)]: nested_absmax
  table,          // nf4_double fp32 [257]: nested_quant_map [256], then nested_offset
};
inline constexpr u32 packed_part_count = 4;
inline constexpr u64 packed_alignment = 64;

constexpr bool is_nf4(Packing packing) { return packing == Packing::nf4 || packing == Packing::nf4_double; }

// RETURNS: how many scales the matrix has, not counting nested scales.
constexpr u64 packed_scales(const PackedMatrix& m) {
  switch (m.packing) {
    case Packing::none:
      return 0;
    case Packing::fp8_block:
      return div_up(m.rows, m.block_rows) * div_up(m.columns, m.block_columns);
    case Packing::mxfp4:
      return m.elements() / mxfp4_block;
    case Packing::nf4:
    case Packing::nf4_double:
      return div_up(m.elements(), m.block);
    case Packing::int8_row:
      return m.rows;
  }
  return 0;
}

// RETURNS: bytes of a part without what aligns the next; 0 for a part that the format does not have.
constexpr u64 part_bytes(const PackedMatrix& m, PackedPart part) {
  const bool bytes_as_scales = m.packing == Packing::mxfp4 || m.packing == Packing::nf4_double;
  const bool nibbles = m.packing == Packing::mxfp4 || is_nf4(m.packing);
  if (m.packing == Packing::none) return 0;
  switch (part) {
    case PackedPart::codes:
      return nibbles ? div_up(m.elements(), 2) : m.elements();
    case PackedPart::scales:
      return packed_scales(m) * (bytes_as_scales ? 1 : sizeof(float));
    case PackedPart::nested_scales:
      return m.packing == Packing::nf4_double ? div_up(packed_scales(m), m.nested_block) * sizeof(float) : 0;
    case PackedPart::table:
      return m.packing == Packing::nf4_double ? (nested_codes + 1) * sizeof(float) : 0;
  }
  return 0;
}

// RETURNS: where a part begins in the matrix's bytes; a multiple of packed_alignment.
constexpr u64 part_begin(const PackedMatrix& m, PackedPart part) {
  u64 at = 0;
  for (u32 p = 0; p < static_cast<u32>(part); ++p)
    at += round_up(part_bytes(m, static_cast<PackedPart>(p)), packed_alignment);
  return at;
}

// RETURNS: bytes of the matrix, a multiple of packed_alignment; 0 for Packing::none.
constexpr u64 packed_bytes(const PackedMatrix& m) {
  const u64 begin = part_begin(m, PackedPart::table);
  return begin + round_up(part_bytes(m, PackedPart::table), packed_alignment);
}

// Format of a published model's matrices.
struct Quantization {
  Packing packing = Packing::none;
  u32 block_rows = 128, block_columns = 128;  // fp8_block
  // Modules whose matrices are not packed, in the spelling of files. A name matches a module whose name holds
  // its segments side by side; the segment `*` matches any. "model.layers.*.self_attn", "mlp.gate",
  // "lm_head".
  std::vector<std::string> unpacked_modules;
  bool from_files =
      false;  // unpacked_modules is complete: it was read from the weights, not from config.json

  bool operator==(const Quantization&) const = default;
};

}  // namespace tidepool
