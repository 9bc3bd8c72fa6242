// XXH3 over all weights of a model directory, made of the bytes as somebody reads them anyway: by several
// threads, in any order of tensors, and however they are spread over files.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/text/hash.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {

// A tensor is hashed in parts of so many bytes, which threads may hash each for itself.
inline constexpr u64 hashed_part_bytes = 1 * mib;

// Hash of one tensor: XXH3 over the XXH3 of each of its parts, as 16 hex digits. Takes its bytes in order, in
// pieces of any size, or the hashes of its parts in order; not both.
class TensorHash {
 public:
  void update(std::span<const std::byte> bytes);
  void add_part(u64 hash);
  u64 digest();

 private:
  StreamHash parts_;
  std::optional<StreamHash> part_;
  u64 filled_ = 0;  // of the part that is being hashed
};

// Hash of all tensors: XXH3 over "NAME DTYPE SHAPE HASH\n" of each, ascending by name.
class TensorHashes {
 public:
  void add(const StoredTensor& tensor, u64 hash);
  bool has(const std::string& tensor) const { return lines_.contains(tensor); }
  std::string text() const;  // 16 hex digits

 private:
  std::map<std::string, std::string> lines_;
};

// Reads a tensor for nothing else.
Result<u64> hash_of_tensor(const SafetensorsFile&, const StoredTensor&);

}  // namespace tidepool
