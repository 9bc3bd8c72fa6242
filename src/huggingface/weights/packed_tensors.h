// Reads packed matrices from safetensors files: finds the tensors that belong to one matrix, checks them, and
// fills the matrix's bytes as tidepool/packing.h lays them out. The tensors of matrix X (X is "....weight",
// or the name of experts that lie in one tensor):
//
//   fp8_block  X F8_E4M3; X_scale_inv F32, BF16 or F16, widened to fp32
//   mxfp4      X_blocks U8, X_scales U8
//   nf4        X U8; X.absmax; X.quant_map, which must be NF4's; X.quant_state.bitsandbytes__nf4, JSON
//              with block and shape; if double quantized X.nested_absmax and X.nested_quant_map
//   int8_row   X I8; SCB beside it, without ".weight"; weight_format beside it, which must be 0 (rows) if
//              it exists
#pragma once

#include <limits>
#include <span>
#include <string>

#include "huggingface/weights/safetensors.h"
#include "tidepool/packing.h"

namespace tidepool {

// A matrix of a model, or equal matrices that lie in one tensor.
struct WantedMatrix {
  std::string name;  // X
  u32 experts = 0;   // 0: [rows, columns]; else [experts, rows, columns]
  u32 rows = 0, columns = 0;
  Packing packing = Packing::none;        // according to config.json; nf4 and nf4_double count as the same
  u32 block_rows = 0, block_columns = 0;  // fp8_block, according to config.json
};

// Tensors that hold a wanted matrix.
struct PackedSource {
  PackedMatrix matrix;  // packing is none: `codes` has floats, to be read as weights that are not packed
  SafetensorsModel::Location codes, scales, nested_scales, table;
  float nested_offset = 0;
  float value_max = std::numeric_limits<float>::max();  // what the state can hold: read_packed() refuses more
};

// RETURNS: where the matrix is. Reads only small tensors, and looks at no codes or scales.
// Error: bad_input, naming file and tensor, if a tensor is missing, or of another type, shape or format.
Result<PackedSource> find_packed(const SafetensorsModel&, const WantedMatrix&);

// Fills `out` with bytes [begin, begin + out.size()) of the packed matrix of expert `expert` (0 without
// experts). REQUIRES: begin and out.size() are multiples of packed_alignment, within
// packed_bytes(source.matrix). THREADS: any. Error: as SafetensorsFile::read(); bad_input for a number that
// is not finite or makes values beyond value_max, naming file and tensor.
Result<void> read_packed(const PackedSource&, u32 expert, u64 begin, std::span<std::byte> out);

}  // namespace tidepool
