// Weights of Hugging Face model directories, on their way into the training state.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Only the weights, from any Hugging Face model directory (F32, BF16 or F16; one file or shards; names with
// or without "transformer."): to start from, or to generate with. Errors are ErrorKind::bad_input and name
// tensor, what was expected and what was found. Returns the names of tensors that nothing here uses.
// Takes up to WeightReader::memory_max beside the writer's. Of a graph with LoRA: those of the frozen model,
// or of the adapters, from an adapter's directory. `xxh3`, where not null, gets what TensorHashes makes of
// all the directory's tensors, from the bytes that are loaded.
enum class WeightsOf : u8 { model, adapters };
Result<std::vector<std::string>> load_weights(const std::string& directory, const ModelGraph&, StateWriter&,
                                              WeightsOf = WeightsOf::model, std::string* xxh3 = nullptr);

// Checks that the directory's files hold each tensor of the model, in its shape. Reads headers only; errors
// as of load_weights.
Result<void> check_all_tensors(const std::string& directory, const ModelGraph&);

}  // namespace tidepool
