// Loads weights of Hugging Face model directories into the training state.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Loads weights from any Hugging Face model directory (F32, BF16 or F16; one file or shards; names with or
// without "transformer."), to train or to generate. For a graph with LoRA: `model` loads the frozen model's
// weights, `adapters` loads the adapter's from an adapter's directory. `xxh3`, if not null, gets the
// TensorHashes of all tensors in the directory, computed from the bytes that are loaded. Takes up to
// WeightReader::memory_max beside the writer's memory.
// `without_score`: the model of a directory without a score head, which the run draws itself.
// RETURNS: names of tensors that the model does not use.
// Error: bad_input, naming tensor, expectation and finding.
enum class WeightsOf : u8 { model, without_score, adapters };
Result<std::vector<std::string>> load_weights(const std::string& directory, const ModelGraph&, StateWriter&,
                                              WeightsOf = WeightsOf::model, std::string* xxh3 = nullptr);

// RETURNS: true if the directory's weights have a score head.
Result<bool> has_score_head(const std::string& directory, const ModelConfig&);

// Checks that the directory has every tensor of the model, with its shape. Reads only headers.
// Error: as load_weights().
Result<void> check_all_tensors(const std::string& directory, const ModelGraph&);

}  // namespace tidepool
