// Packed matrices of a model directory, unpacked while it is exported.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "huggingface/weights/packed_tensors.h"

namespace tidepool {

// PackedMatrices finds the packed matrices of a directory by the names and types of its tensors.
class PackedMatrices {
 public:
  // `quantization`: of its config.json, which alone knows FP8's blocks.
  // Error: as find_packed().
  static Result<PackedMatrices> find(const SafetensorsModel&, const Quantization&);

  struct Matrix {
    std::string name;
    // [rows, columns], or of MXFP4 [experts, columns, rows], as transformers unpacks it.
    std::vector<u64> shape;
    PackedSource source;
  };
  // RETURNS: the matrix whose codes are in this tensor; null if there is none.
  const Matrix* of_codes(const std::string& tensor) const;
  // True for a tensor that only unpacking needs, such as scales.
  bool is_side(const std::string& tensor) const { return sides_.contains(tensor); }

 private:
  std::map<std::string, Matrix> matrices_;  // by the names of the tensors with their codes
  std::set<std::string> sides_;
};

// UnpackedReader reads one packed matrix as rows of floats. Holds the packed matrix in memory, of MXFP4 also
// its values in bf16.
class UnpackedReader {
 public:
  explicit UnpackedReader(const PackedMatrices::Matrix& matrix) : matrix_(matrix) {}

  // RETURNS: elements [begin, begin + out.size()) of the matrix, flattened in its shape. Within one expert.
  // Error: as read_packed().
  Result<void> read(u64 begin, std::span<float> out);

 private:
  Result<void> load(u32 expert);

  const PackedMatrices::Matrix& matrix_;
  std::optional<u32> loaded_;
  std::vector<std::byte> packed_;
  std::vector<u16> transposed_;  // MXFP4
};

}  // namespace tidepool
