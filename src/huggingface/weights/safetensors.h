// Reads and writes safetensors files: u64 little-endian header length, JSON header, then the buffer
// (https://github.com/huggingface/safetensors). Reading is strict, writing streams. Neither holds more in
// memory than the header and the caller's piece.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/text/hash.h"
#include "base/types.h"

namespace tidepool {

inline constexpr u64 safetensors_header_bytes_max = 100'000'000;

enum class Dtype : u8 {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64
};

std::string_view name(Dtype);  // as in the file: "F32", "BF16"
u64 dtype_bytes(Dtype);

struct StoredTensor {
  std::string name;  // as the model calls it (SafetensorsModel::rename)
  Dtype dtype{};
  std::vector<u64> shape;
  u64 begin = 0;  // bytes, from the start of the buffer
  u64 end = 0;
  std::string other_name = {};  // in the file, if it is another

  u64 bytes() const { return end - begin; }
  const std::string& name_in_file() const { return other_name.empty() ? name : other_name; }
  bool operator==(const StoredTensor&) const = default;
};

// RETURNS: text such as "[2, 3]".
std::string shape_text(std::span<const u64> shape);

// Places tensors one after another: sets begin and end from dtype and shape.
// REQUIRES: no overflow.
void assign_offsets(std::span<StoredTensor>);

// RETURNS: length word and header, padded with blanks so that the buffer starts at a multiple of 8 bytes.
// `__metadata__` is {"format": "pt"}: without it transformers refuses the file.
std::string safetensors_header(std::span<const StoredTensor>);

// Parses a header. `json` is the header without its length word. Refuses duplicate keys, holes, overlap,
// overflow and everything unknown.
// RETURNS: tensors in the order of the buffer.
// Error: `error_kind`, naming `file_name`, tensor and reason.
Result<std::vector<StoredTensor>> parse_safetensors_header(std::string_view json, u64 buffer_bytes,
                                                           ErrorKind error_kind, std::string_view file_name);

// One open file.
// THREADS: any may read.
class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::string& path, ErrorKind error_kind);

  std::span<const StoredTensor> tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // null: not found
  const std::string& path() const { return path_; }

  // XXH3 of everything before the tensors, to be continued by the caller.
  // REQUIRES: called at most once.
  StreamHash take_hash_of_head() { return std::move(head_); }
  u64 bytes_of_head() const { return buffer_begin_; }
  u64 offset_of(const StoredTensor& tensor) const { return buffer_begin_ + tensor.begin; }  // in the file

  // Reads bytes [begin, begin + out.size()) of a tensor.
  // REQUIRES: they lie within the tensor.
  Result<void> read(const StoredTensor&, u64 begin, std::span<std::byte> out) const;

  // Gives each tensor the name that `name_of` returns for its present name.
  void rename(const std::function<std::string(const std::string&)>& name_of);

  SafetensorsFile(const SafetensorsFile&) = delete;

 private:
  SafetensorsFile() = default;
  void sort_names();

  std::string path_;
  ErrorKind error_kind_{};
  Fd fd_;
  StreamHash head_;
  u64 buffer_begin_ = 0;
  std::vector<StoredTensor> tensors_;
  std::vector<u32> by_name_;  // indices into tensors_, sorted by name
};

// All weights of a model directory: model.safetensors, or the shards listed in model.safetensors.index.json.
// For an adapter's directory: adapter_model.safetensors.
class SafetensorsModel {
 public:
  struct Location {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
    explicit operator bool() const { return tensor != nullptr; }
  };

  static Result<std::unique_ptr<SafetensorsModel>> open(const std::string& directory, ErrorKind error_kind,
                                                        const std::string& file_name = "model.safetensors");

  Location find(std::string_view name) const;
  // Gives each tensor the name that `name_of` returns for its present name.
  // Error: names both tensors, if two would have the same name.
  Result<void> rename(const std::function<std::string(const std::string&)>& name_of);
  std::span<const std::unique_ptr<SafetensorsFile>> files() const { return files_; }

  SafetensorsModel(const SafetensorsModel&) = delete;

 private:
  SafetensorsModel() = default;
  Result<void> open_shards(const std::string& directory, const std::string& index_path, ErrorKind error_kind);

  ErrorKind error_kind_{};
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace tidepool
