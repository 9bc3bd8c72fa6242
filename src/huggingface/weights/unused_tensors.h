// Lines about the weights of a directory: tensors that are rounded, and tensors that the model does not use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tidepool/model_config.h"

namespace tidepool {

// Purpose of a directory's weights: a run trains them, or reads them only, as eval does.
enum class WeightsUse { training, reading };

// At most three lines. `tensors`: names returned by load_weights(). The parts beside a text model get a line
// of their own, and so do layers beyond the model's, with their numbers: config.json states fewer layers than
// the files hold.
std::vector<std::string> describe_unused(const std::string& directory, std::span<const std::string> tensors,
                                         const ModelConfig&, WeightsUse);

// RETURNS: a line about the F64 tensors of a directory's model, or adapters; none if it has no such tensors.
std::vector<std::string> describe_rounded(const std::string& directory);

}  // namespace tidepool
