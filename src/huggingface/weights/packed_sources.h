// Finds the packed tensors of a model's windows in files, and loads them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/packed_tensors.h"
#include "huggingface/weights/tensor_hashes.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// A packed tensor of a window, and where a file has it.
struct PackedPlace {
  PackedSource source;
  u32 expert = 0;  // of source
  u32 window = 0;
  u64 stored_offset = 0;  // elements
  Bytes bytes{};          // a multiple of packed_alignment
};

// RETURNS: how the windows keep this tensor of a file.
Packing packing_of(const ModelGraph&, const FileTensor&);

// RETURNS: a place per part of the tensor.
// Error: as find_packed(); bad_input if the file does not have it in the format that config.json names.
// REQUIRES: the tensor is packed.
Result<std::vector<PackedPlace>> find_places(const SafetensorsModel&, const ModelGraph&, const FileTensor&);

// RETURNS: names of all tensors of files that a matrix X may be made of.
std::vector<std::string> packed_names(const std::string& matrix, Packing);

// Hashes of the bytes that load_weights() has read of each tensor so far.
using LoadedHashes = std::map<const StoredTensor*, TensorHash>;

// Writes the tensor into the state, and hashes its codes. `buffer`: a multiple of packed_alignment.
// REQUIRES: experts of one tensor come in ascending order.
Result<void> load_packed(const PackedPlace&, Precision, StateWriter&, std::span<std::byte> buffer,
                         LoadedHashes&);

// RETURNS: Quantization::unpacked_modules of a directory with weights: modules that have a matrix of floats;
// none if the directory has no weights that can be read.
std::optional<std::vector<std::string>> unpacked_modules(const std::string& directory, const ModelConfig&);

}  // namespace tidepool
