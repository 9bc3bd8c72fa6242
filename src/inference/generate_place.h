// What `tidepool generate` was pointed at.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tidepool {

struct GeneratePlace {
  std::string run_dir, checkpoint;
  bool newest = false;             // of the run, which was named and may rotate it away
  std::vector<std::string> notes;  // lines for people: what was stepped over
};

// A model directory without a run's config.yaml in it or in the directory above it: budgets have to be said.
bool stands_alone(const std::string& path);

// `path`: a run directory, whose newest checkpoint with sound weights it is, or a checkpoint.
// ErrorKind::usage: neither; corrupt_checkpoint: the weights are damaged.
Result<GeneratePlace> find_generate_place(const std::string& path);

}  // namespace tidepool
