// generate_text() samples from a trained model and streams the text token by token.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace tidepool {

struct GenerateRequest {
  std::string path;  // a run directory (its newest checkpoint), a checkpoint or a model directory
  // Overrides of the run's config; for a model directory, the whole config. Unless an override says
  // otherwise, `threads` sets machine.threads. Batches always hold one sequence.
  std::vector<std::string> overrides;
  GenerateConfig generate;
  u64 seed = 42;
  u32 threads = 0;
  std::function<void(const std::string&)> note = [](const std::string&) {};  // lines about the checkpoint
};

// Verifies the weights first. In a run directory, a damaged checkpoint is noted and the one before it is
// used. Calls `emit` with the prompt, then with generated text as it comes, in whole characters, until an end
// token. Streams the weights through the budgets of the training, unless overrides name others, so a model
// that could be trained can be sampled.
// ErrorKind::corrupt_checkpoint if a checkpoint named by path is damaged.
Result<void> generate_text(const GenerateRequest&, const std::function<void(std::string_view)>& emit);

}  // namespace tidepool
