// find_export_source() resolves the argument of `tidepool export` to weights, and for adapters to their base
// model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tidepool {

struct ExportSource {
  std::string directory;            // a verified checkpoint, or a model directory
  std::string base;                 // directory whose form the output gets; empty: that of `directory`
  std::string adapter;              // directory of adapters to merge into `directory`; empty: none
  std::vector<std::string> labels;  // names of a classifier's labels; empty: not known
  std::string base_xxh3;            // expected hash of `directory`'s weights (TensorHashes); empty: unknown
  std::vector<std::string> notes;   // lines for people, such as checkpoints stepped over
};

struct ExportRequest {
  std::string path;
  std::string base = {};
  bool text_only = false;  // nothing that stands beside the text model
};

// `path`: a run, which stands for its newest checkpoint with undamaged weights; a checkpoint; a directory
// with config.json and weights; or a directory of adapters, also PEFT's. Adapters are merged into `base`; if
// that is empty, into the model that the adapters' config names. A model gets the form of `base`; if that is
// empty, of the origin of its checkpoint. A model of a known family must have all its tensors.
// `reading`: as in retry_rotated().
// ErrorKind::usage if `path` is none of these; corrupt_checkpoint if the weights are damaged.
Result<ExportSource> find_export_source(const ExportRequest&, std::string& reading);

inline Result<ExportSource> find_export_source(const std::string& path, const std::string& base) {
  std::string unused;
  return find_export_source({.path = path, .base = base}, unused);
}

}  // namespace tidepool
