// Reads what a model's config.json says about its packed weights: the key quantization_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tidepool/packing.h"

namespace tidepool {

// A model's weights are packed in one format, except for modules that stay as they are (norms, embeddings,
// routers).
struct Quantization {
  Packing packing = Packing::none;  // nf4 and nf4_double: the tensors decide which of the two a matrix has
  u32 block_rows = 0, block_columns = 0;  // fp8_block
  // Names of modules that are not packed, in the spelling of the file: they may be ends of names or patterns.
  // A tensor's own type decides (huggingface/weights/packed_tensors.h).
  std::vector<std::string> unpacked_modules;

  bool operator==(const Quantization&) const = default;
};

// `config`: the text of a config.json.
// RETURNS: none if the key is missing or null.
// Error: `error_kind`, naming `file_name` and the key, for every format that Tidepool does not unpack.
Result<std::optional<Quantization>> parse_quantization(std::string_view config, ErrorKind error_kind,
                                                       std::string_view file_name);

}  // namespace tidepool
