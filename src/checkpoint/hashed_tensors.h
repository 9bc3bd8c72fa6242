// Tensors of a checkpoint's files on their way into the state: each file is hashed in the pass that reads it,
// from its first byte to its last, and compared with the manifest at the end.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/text/hash.h"
#include "checkpoint/manifest.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {

class HashedTensors {
 public:
  // Opens one file of tensors, or all that the index in `directory` names. Errors are
  // ErrorKind::corrupt_checkpoint, also for a file that the manifest does not list.
  static Result<HashedTensors> open(const std::string& directory, const std::string& file,
                                    const Manifest& manifest);

  SafetensorsModel::Location find(const std::string& name) const { return model_->find(name); }
  // REQUIRES: tensors of a file, and the parts of a tensor, are read in their order, each once.
  Result<void> read(const SafetensorsModel::Location&, u64 begin, std::span<std::byte> out);
  // After the last read: ErrorKind::corrupt_checkpoint names the file that is not what was written.
  Result<void> finish() const;

 private:
  struct Progress {
    StreamHash hash;
    u64 next = 0;  // byte of the file's buffer
    const ListedFile* listed = nullptr;
  };

  HashedTensors() = default;

  std::unique_ptr<SafetensorsModel> model_;
  std::map<const SafetensorsFile*, Progress> files_;
};

}  // namespace tidepool
