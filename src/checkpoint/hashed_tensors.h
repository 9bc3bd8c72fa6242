// HashedTensors reads tensors of a checkpoint into the state. It hashes each file from first to last byte in
// the same pass, and compares the hashes with the manifest at the end.
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
  // Opens one file of tensors, or all files that the index in `directory` names.
  // Error: corrupt_checkpoint, also for a file that the manifest does not list.
  static Result<HashedTensors> open(const std::string& directory, const std::string& file,
                                    const Manifest& manifest);

  SafetensorsModel::Location find(const std::string& name) const { return model_->find(name); }
  // REQUIRES: all tensors of a file, and all parts of a tensor, are read in order, each once.
  Result<void> read(const SafetensorsModel::Location&, u64 begin, std::span<std::byte> out);
  // To be called after the last read.
  // Error: corrupt_checkpoint, naming the file that is not as it was written.
  Result<void> finish() const;

 private:
  struct Progress {
    StreamHash hash;
    u64 next = 0;  // next byte of the file's buffer to be read
    const ListedFile* listed = nullptr;
  };

  HashedTensors() = default;

  std::unique_ptr<SafetensorsModel> model_;
  std::map<const SafetensorsFile*, Progress> files_;
};

}  // namespace tidepool
