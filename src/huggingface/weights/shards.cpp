#include "huggingface/weights/shards.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;

bool is_weights_file(std::string_view name) {
  const bool shard = name.starts_with("model-") && name.ends_with(".safetensors");
  return name == weights_file || name == weights_index_file || shard;
}

std::vector<Shard> shards_of(std::vector<StoredTensor> tensors, Bytes most) {
  assign_offsets(tensors);  // to know their sizes
  std::vector<Shard> shards(1);
  u64 bytes = 0;
  for (StoredTensor& t : tensors) {
    if (bytes > 0 && t.bytes() > most.value - std::min(bytes, most.value)) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += t.bytes();
    shards.back().tensors.push_back(std::move(t));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    assign_offsets(shards[i].tensors);
    shards[i].file = shards.size() == 1
                         ? weights_file
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

std::string shard_index_text(std::span<const Shard> shards) {
  json::object map;
  u64 bytes = 0;
  for (const Shard& shard : shards) {
    bytes += shard.data_bytes();
    for (const StoredTensor& t : shard.tensors) map[t.name] = shard.file;
  }
  return json_text(
      json::object{{"metadata", json::object{{"total_size", bytes}}}, {"weight_map", std::move(map)}},
      JsonStyle::pretty);
}

Result<void> ShardWriter::begin_file() {
  const Shard& shard = shards_[written_.size()];
  TRY_ASSIGN(HashedFile file, HashedFile::create(files_, directory_, shard.file, Bytes{shard.file_bytes()}));
  file_ = std::make_unique<HashedFile>(std::move(file));
  left_ = shard.data_bytes();
  return file_->append(safetensors_header(shard.tensors));
}

Result<void> ShardWriter::end_file() {
  TRY_ASSIGN(ListedFile entry, file_->finish());
  file_.reset();
  written_.push_back(std::move(entry));
  return {};
}

Result<void> ShardWriter::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (!file_) TRY(begin_file());
  CHECK(bytes.size() <= left_, bytes.size(), left_);
  TRY(file_->append(bytes));
  left_ -= bytes.size();
  return left_ == 0 ? end_file() : Result<void>();
}

Result<std::vector<ListedFile>> ShardWriter::finish() {
  CHECK(!file_, left_);
  while (written_.size() < shards_.size()) {  // files whose tensors have no elements
    TRY(begin_file());
    CHECK(left_ == 0, left_);
    TRY(end_file());
  }
  std::vector<ListedFile> all = written_;
  if (shards_.size() == 1) return all;
  TRY_ASSIGN(HashedFile index, HashedFile::create(files_, directory_, weights_index_file, Bytes{0}));
  TRY(index.append(shard_index_text(shards_)));
  TRY_ASSIGN(ListedFile entry, index.finish());
  all.push_back(std::move(entry));
  return all;
}

}  // namespace tidepool
