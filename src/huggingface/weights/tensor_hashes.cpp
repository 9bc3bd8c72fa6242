#include "huggingface/weights/tensor_hashes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tidepool {

void TensorHash::add_part(u64 hash) { parts_.update(hash_text(hash)); }

void TensorHash::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!part_) part_.emplace();
    const u64 some = std::min<u64>(bytes.size(), hashed_part_bytes - filled_);
    part_->update(bytes.first(some));
    bytes = bytes.subspan(some);
    filled_ += some;
    if (filled_ < hashed_part_bytes) return;
    add_part(part_->digest());
    part_.reset();
    filled_ = 0;
  }
}

u64 TensorHash::digest() {
  if (part_) add_part(part_->digest());
  part_.reset();
  return parts_.digest();
}

void TensorHashes::add(const StoredTensor& tensor, u64 hash) {
  lines_[tensor.name] = fmt::format("{} {} {} {}\n", tensor.name, name(tensor.dtype),
                                    shape_text(tensor.shape), hash_text(hash));
}

std::string TensorHashes::text() const {
  StreamHash all;
  for (const auto& [tensor, line] : lines_) all.update(line);
  return hash_text(all.digest());
}

Result<u64> hash_of_tensor(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<std::byte> piece(std::min(hashed_part_bytes, tensor.bytes()));
  TensorHash hash;
  for (u64 at = 0; at < tensor.bytes(); at += piece.size()) {
    const auto some = std::span(piece).first(std::min<u64>(piece.size(), tensor.bytes() - at));
    TRY(file.read(tensor, at, some));
    hash.update(some);
  }
  return hash.digest();
}

}  // namespace tidepool
