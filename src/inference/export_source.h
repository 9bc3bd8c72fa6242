// What `tidepool export` was pointed at.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tidepool {

struct ExportSource {
  std::string directory;           // a checkpoint, verified, or a model directory
  std::string adapter;             // directory of adapters that are merged into it; empty: none
  std::string base_xxh3;           // what `directory`'s weights must come to (TensorHashes); empty: not known
  std::vector<std::string> notes;  // lines for people: what was stepped over
};

// `path`: a run, whose newest checkpoint with sound weights it is; a checkpoint; any directory with
// config.json and weights; or an adapter's, of PEFT too, which is merged into `base`, or without one into the
// model that its config names. All tensors of a model of a known family must be there. ErrorKind::usage: none
// of them; corrupt_checkpoint: the weights are damaged. `reading`: as in retry_rotated().
Result<ExportSource> find_export_source(const std::string& path, const std::string& base,
                                        std::string& reading);

inline Result<ExportSource> find_export_source(const std::string& path, const std::string& base) {
  std::string unused;
  return find_export_source(path, base, unused);
}

}  // namespace tidepool
