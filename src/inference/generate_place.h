// find_generate_place() resolves the argument of `tidepool generate` to a checkpoint and its run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tidepool {

struct GeneratePlace {
  std::string run_dir, checkpoint;
  bool newest = false;             // true: the path names a run, which may rotate this checkpoint away
  std::vector<std::string> notes;  // lines for people, such as checkpoints stepped over
};

// RETURNS: true for a model directory with no config.yaml of a run in it or in the directory above it: the
// user must give budgets.
bool stands_alone(const std::string& path);

// `path`: a run directory, which stands for its newest checkpoint with undamaged weights, or a checkpoint.
// ErrorKind::usage if `path` is neither; corrupt_checkpoint if the weights are damaged.
Result<GeneratePlace> find_generate_place(const std::string& path);

}  // namespace tidepool
