// A model's tensors over the files of its directory: one, or several that model.safetensors.index.json lists.
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
// Whether a file of a model directory is part of its weights: one of the two, or
// "model-00001-of-00002.safetensors".
bool is_weights_file(std::string_view name);

struct Shard {
  std::string file;                   // a name without directory
  std::vector<StoredTensor> tensors;  // with offsets in this file

  u64 data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  u64 file_bytes() const { return safetensors_header(tensors).size() + data_bytes(); }
};

// The tensors in their order, in as few files as hold at most `most` bytes of tensors each, filled one after
// the other as transformers does; a larger tensor has a file to itself. One file is model.safetensors.
std::vector<Shard> shards_of(std::vector<StoredTensor> tensors, Bytes most);
// {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor: file}}
std::string shard_index_text(std::span<const Shard>);

// Writes them, all bytes in the order of the tensors. One thread.
class ShardWriter {
 public:
  ShardWriter(Files& files, std::string directory, std::vector<Shard> shards)
      : files_(files), directory_(std::move(directory)), shards_(std::move(shards)) {}
  ShardWriter(const ShardWriter&) = delete;

  // REQUIRES: does not run over the end of a file.
  Result<void> append(std::span<const std::byte>);
  // REQUIRES: everything was appended. Durable on return; of several files the index is written too.
  Result<std::vector<ListedFile>> finish();

 private:
  Result<void> begin_file();
  Result<void> end_file();

  Files& files_;
  const std::string directory_;
  const std::vector<Shard> shards_;
  std::vector<ListedFile> written_;
  std::unique_ptr<HashedFile> file_;  // of shards_[written_.size()], null before its first byte
  u64 left_ = 0;                      // bytes of tensors that it still waits for
};

}  // namespace tidepool
