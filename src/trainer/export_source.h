// What `tidepool export` was pointed at.
#pragma once

#include <string>
#include <vector>

#include "tidepool/result.h"

namespace tidepool {

struct ExportSource {
  std::string directory;           // a checkpoint, verified, or a model directory
  std::string adapter;             // directory of adapters that are merged into it; empty: none
  std::vector<std::string> notes;  // lines for people: what was stepped over
};

// `path`: a run, whose newest checkpoint with sound weights it is; a checkpoint; any directory with
// config.json and weights; or an adapter's, of PEFT too, which is merged into `base`, or without one into the
// model that its config names. ErrorKind::usage: none of them; corrupt_checkpoint: the weights are damaged.
Result<ExportSource> find_export_source(const std::string& path, const std::string& base);

}  // namespace tidepool
