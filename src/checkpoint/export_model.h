// A model directory written anew: the weights, streamed tensor by tensor and where asked in another type, and
// the files beside them that every tool looks for. What training alone needs stays behind.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/state_tensors.h"
#include "huggingface/directory/carried.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/shards.h"
#include "huggingface/weights/tensor_change.h"
#include "huggingface/weights/tensor_hashes.h"
#include "tidepool/chunk.h"

namespace tidepool {

struct ExportOptions {
  std::optional<Precision> dtype;  // of all weights; none: each keeps its own
  Bytes max_shard_size{5'000'000'000};
  TensorChange* change = nullptr;  // must outlive the export
  std::string adapter;  // directory whose tokenizer and template count for more than the model's; empty: none
  std::string weights_xxh3;  // what all tensors that are read must come to (TensorHashes); empty: not known
};

class ModelExport {
 public:
  // `source`: a directory with config.json and weights; names and shapes are not asked about.
  // ErrorKind::usage where it is none, bad_input naming the file for what is wrong in it: JSON that does not
  // parse, a config without model_type, an index that lacks files, a tensor whose type cannot be made
  // another.
  static Result<std::unique_ptr<ModelExport>> open(const std::string& source, const ExportOptions&);

  // Of what will be written.
  Bytes bytes() const { return bytes_; }
  const std::vector<Shard>& shards() const { return shards_; }

  // Makes `out`, whole or not at all: everything goes to `out`.tmp-<pid>, is fsynced, and is renamed.
  // `progress` is called with the bytes of tensors written so far; false stops it (ErrorKind::interrupted).
  // ErrorKind::usage where `out` is there already. Takes up to memory_max beside a row of the widest tensor.
  Result<void> write(const std::string& out, Files&, const std::function<bool(u64)>& progress) const;
  static constexpr Bytes memory_max{12 * mib};

  ModelExport(const ModelExport&) = delete;

 private:
  struct Item {
    SafetensorsModel::Location from;
    Dtype to{};
    bool changed = false;
  };
  struct Buffers;

  ModelExport(std::string source, const ExportOptions& options)
      : source_(std::move(source)), options_(options) {}
  Result<void> list_tensors();
  Result<void> read_config();
  Result<void> check_json_files() const;
  Result<void> check_shards() const;
  Result<void> write_all(const std::string& directory, Files&,
                         const std::function<bool(u64)>& progress) const;
  Result<void> write_tensor(const Item&, Buffers&, TensorHashes&, const TensorSink& sink) const;
  Result<void> check_weights(const TensorHashes&) const;

  const std::string source_;
  const ExportOptions options_;
  std::unique_ptr<SafetensorsModel> model_;
  std::vector<Item> items_;  // in the order of the files
  std::vector<Shard> shards_;
  std::vector<CarriedFile> small_;  // config.json and those of carried_files()
  Bytes bytes_{};
};

}  // namespace tidepool
