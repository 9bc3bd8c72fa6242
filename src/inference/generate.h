// Sampling from a trained model, streamed token by token.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace tidepool {

struct GenerateRequest {
  std::string path;  // a run directory (its newest checkpoint), a checkpoint or a model directory
  // Of the run's config, or all that there is beside a model directory. Batches are of one sequence, and
  // `threads` is machine.threads, unless that is said here.
  std::vector<std::string> overrides;
  GenerateConfig generate;
  u64 seed = 42;
  u32 threads = 0;
  std::function<void(const std::string&)> note = [](const std::string&) {};  // lines about the checkpoint
};

// The weights are verified first: in a run directory a damaged checkpoint is noted and the one before it
// taken; one that was named is ErrorKind::corrupt_checkpoint. Calls `emit` with the prompt, then with text as
// it comes, whole characters, until a token that ends it. The weights stream through the same budgets as in
// training, unless overrides name others, so a model that trained can be sampled.
Result<void> generate_text(const GenerateRequest&, const std::function<void(std::string_view)>& emit);

}  // namespace tidepool
