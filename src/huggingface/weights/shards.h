// Shards: distributes a model's tensors over one file, or over several with a model.safetensors.index.json.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/hashed_file.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {

inline constexpr const char* weights_file = "model.safetensors";
inline constexpr const char* weights_index_file = "model.safetensors.index.json";
// True if a file of a model directory is part of its weights: one of these two, or a name such as
// "model-00001-of-00002.safetensors".
bool is_weights_file(std::string_view name);

struct Shard {
  std::string file;                   // a name without directory
  std::vector<StoredTensor> tensors;  // offsets are those in this file

  u64 data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  u64 file_bytes() const { return safetensors_header(tensors).size() + data_bytes(); }
};

// Distributes tensors over files without reordering. Fills each file up to `most` bytes of tensors, as
// transformers does; a larger tensor gets a file of its own. A single file is named model.safetensors.
std::vector<Shard> shards_of(std::vector<StoredTensor> tensors, Bytes most);
// RETURNS: {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor: file}}
std::string shard_index_text(std::span<const Shard>);

// Writes the shards from one stream of bytes, in the order of the tensors.
// THREADS: one.
class ShardWriter {
 public:
  ShardWriter(Files& files, std::string directory, std::vector<Shard> shards)
      : files_(files), directory_(std::move(directory)), shards_(std::move(shards)) {}
  ShardWriter(const ShardWriter&) = delete;

  // REQUIRES: the bytes do not cross the end of a file.
  Result<void> append(std::span<const std::byte>);
  // Writes the index if there are several files. All files are durable on return.
  // REQUIRES: all bytes were appended.
  Result<std::vector<ListedFile>> finish();

 private:
  Result<void> begin_file();
  Result<void> end_file();

  Files& files_;
  const std::string directory_;
  const std::vector<Shard> shards_;
  std::vector<ListedFile> written_;
  std::unique_ptr<HashedFile> file_;  // current file, shards_[written_.size()]; null before its first byte
  u64 left_ = 0;                      // bytes of tensors still missing in it
};

}  // namespace tidepool
