// ModelExport copies a model directory: weights, tensor by tensor and converted on request, and the files
// beside them that every tool expects. It omits files that only training needs. Quantized weights are copied
// as they are, unless they are to be converted or changed: then all are unpacked, to bf16. Tensors beside a
// text model, such as a vision part, are copied byte for byte.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/export_form.h"
#include "checkpoint/export_packed.h"
#include "checkpoint/state_tensors.h"
#include "huggingface/directory/carried.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/shards.h"
#include "huggingface/weights/tensor_change.h"
#include "huggingface/weights/tensor_hashes.h"
#include "tidepool/chunk.h"

namespace tidepool {

struct ExportOptions {
  std::optional<Precision>
      dtype;         // of the text model's weights; none: as in the directory whose form it gets
  bool fp8 = false;  // the layers' matrices become FP8 in blocks
  Bytes max_shard_size{5'000'000'000};
  TensorChange* change = nullptr;  // REQUIRES: outlives the export
  std::string base;                // directory whose form the output gets; empty: the source's own
  bool text_only = false;          // leaves out what stands beside the text model
  std::string adapter;             // its tokenizer and template replace the model's; empty: none
  std::string weights_xxh3;        // expected TensorHashes of the tensors that are read; empty: not known
};

class ModelExport {
 public:
  // Opens `source`, a directory with config.json and weights, with tensors of any names and shapes.
  // Error: usage if it is not such a directory; bad_input, naming the file and its fault: invalid JSON, a
  // config without model_type, an index without its files, a tensor whose type cannot be converted.
  static Result<std::unique_ptr<ModelExport>> open(const std::string& source, const ExportOptions&);

  // Size and shards of the output.
  Bytes bytes() const { return bytes_; }
  const std::vector<Shard>& shards() const { return shards_; }

  // Makes `out` completely or not at all: everything goes to `out`.tmp-<pid>, is fsynced, and is renamed.
  // `progress` gets the bytes of tensors written so far; false stops the export. Takes up to memory_max
  // besides a row of the widest tensor, or a quantized matrix with its values.
  // Error: usage if `out` exists; interrupted if `progress` returned false.
  Result<void> write(const std::string& out, Files&, const std::function<bool(u64)>& progress) const;
  static constexpr Bytes memory_max{12 * mib};

  ModelExport(const ModelExport&) = delete;

 private:
  struct Item {
    SafetensorsModel::Location from;
    Dtype to{};
    bool changed = false;
    bool fp8 = false;                                // written as codes and scales
    const PackedMatrices::Matrix* packed = nullptr;  // whose codes are in `from`
    bool dropped = false;                            // not written, only hashed
    std::string written_name;                        // in the output
    bool added = false;                              // of another directory than the source

    const std::string& name() const { return packed != nullptr ? packed->name : from.tensor->name; }
    const std::vector<u64>& shape() const { return packed != nullptr ? packed->shape : from.tensor->shape; }
  };
  struct Buffers;

  ModelExport(std::string source, const ExportOptions& options)
      : source_(std::move(source)), options_(options) {}
  const NewScore* new_score() const;
  Result<void> find_model();
  Result<void> list_tensors();
  Result<void> add_fp8_to_config(const std::vector<StoredTensor>& written);
  Result<Item> item_of(const FormTensor&) const;
  Result<void> read_config();
  Result<void> check_json_files() const;
  Result<void> write_all(const std::string& directory, Files&,
                         const std::function<bool(u64)>& progress) const;
  Result<void> write_tensor(const Item&, Buffers&, TensorHashes&, const TensorSink& sink) const;
  Result<void> write_unpacked(const Item&, Buffers&, const TensorSink& sink) const;
  Result<void> write_fp8(const Item&, Buffers&, TensorHashes&, const TensorSink& sink) const;
  Result<void> put(const Item&, u64 begin, std::span<float>, Buffers&, const TensorSink& sink) const;
  Result<void> hash_only(const Item&, TensorHashes&) const;
  Result<void> check_weights(const TensorHashes&) const;

  const std::string source_;
  const ExportOptions options_;
  ExportForm form_;
  std::optional<Quantization> quantization_;  // if the weights are to be unpacked
  PackedMatrices matrices_;
  ModelConfig config_;       // if the layers' matrices become FP8
  std::vector<Item> items_;  // in the order of the files
  std::vector<Shard> shards_;
  std::vector<CarriedFile> small_;  // config.json and carried files
  Bytes bytes_{};
};

}  // namespace tidepool
