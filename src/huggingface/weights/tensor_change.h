// TensorChange changes a model's weights while they are copied to a new file.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "huggingface/weights/safetensors.h"
#include "tidepool/model_config.h"

namespace tidepool {

// A score head from another file, in the place of the model's head.
struct NewScore {
  std::vector<SafetensorsModel::Location> from;  // the tensors have their names in the new file
  ScoreHead head;
};

// Example: AdapterMerge, which adds an adapter's update.
class TensorChange {
 public:
  virtual ~TensorChange() = default;
  virtual bool changes(std::string_view tensor) const = 0;
  // Called for every tensor before the first change.
  // Error: if the tensor should be changed but cannot be.
  virtual Result<void> check(std::string_view) const { return {}; }
  // Changes elements [begin, begin + values.size()) of a tensor. Called with whole rows of the last
  // dimension, in ascending order. The caller then rounds to the tensor's type.
  // REQUIRES: changes(tensor).
  virtual Result<void> apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                             std::span<float> values) = 0;
  // RETURNS: null: the model keeps its head.
  virtual const NewScore* score() const { return nullptr; }
  // Called after the last tensor.
  // Error: if the model lacked a tensor that should have been changed.
  virtual Result<void> finish() const { return {}; }
};

}  // namespace tidepool
