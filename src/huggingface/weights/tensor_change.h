// What may become of a model's weights while they are written anew.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Changes weights on their way: what an adapter adds, for example.
class TensorChange {
 public:
  virtual ~TensorChange() = default;
  virtual bool changes(std::string_view tensor) const = 0;
  // Of every tensor, before the first is changed: an error where it should be and cannot.
  virtual Result<void> check(std::string_view) const { return {}; }
  // Elements [begin, begin + values.size()) of a tensor for which changes() holds, whole rows of its last
  // dimension, ascending. Rounded to the tensor's type afterwards.
  virtual Result<void> apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                             std::span<float> values) = 0;
  // After the last tensor: whether all that it is for was there.
  virtual Result<void> finish() const { return {}; }
};

}  // namespace tidepool
