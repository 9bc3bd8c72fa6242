// load_interleaved() loads adapters with interleaved tensors, tensor by tensor of the windows.
#pragma once

#include <vector>

#include "huggingface/weights/expert_files.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// A tensor of a window and its place in a file.
struct PartSource {
  SafetensorsModel::Location at;
  const FileTensor* file = nullptr;
  u64 number = 0;  // among the file's parts
  u64 begin = 0;   // element of the file's tensor; not if interleaved
  FileTensor::Part part;
};

// Adapters are small, so one thread reads whole tensors: the largest of a layer, and the one that is loaded.
// REQUIRES: in the order of windows.
// Error: names the file, and the tensor that has a value that is not finite, or too large for fp16.
Result<void> load_interleaved(const std::vector<PartSource>&, const ModelGraph&, StateWriter&);

}  // namespace tidepool
