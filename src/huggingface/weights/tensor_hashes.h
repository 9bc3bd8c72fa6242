// Hashes all weights of a model directory with XXH3, from bytes that are read anyway. The result does not
// depend on threads, the order of tensors, or their distribution over files.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/text/hash.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {

// Tensors are hashed in parts of this size, so that threads can hash parts independently.
inline constexpr u64 hashed_part_bytes = 1 * mib;

// Hash of one tensor: XXH3 over the XXH3 of each of its parts, as 16 hex digits. Takes the tensor's bytes in
// order, in pieces of any size, or the hashes of its parts in order; not both.
class TensorHash {
 public:
  void update(std::span<const std::byte> bytes);
  void add_part(u64 hash);
  u64 digest();

 private:
  StreamHash parts_;
  std::optional<StreamHash> part_;
  u64 filled_ = 0;  // bytes hashed of the current part
};

// Hash of all tensors: XXH3 over the lines "NAME DTYPE SHAPE HASH\n", in ascending order of names.
class TensorHashes {
 public:
  void add(const StoredTensor& tensor, u64 hash);
  bool has(const std::string& tensor) const { return lines_.contains(tensor); }
  std::string text() const;  // 16 hex digits

 private:
  std::map<std::string, std::string> lines_;
};

// Reads a tensor only to hash it.
Result<u64> hash_of_tensor(const SafetensorsFile&, const StoredTensor&);

}  // namespace tidepool
