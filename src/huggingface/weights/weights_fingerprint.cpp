#include "huggingface/weights/weights_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/hash.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {
namespace {

using Location = SafetensorsModel::Location;

constexpr u64 blocks = 4, block_bytes = 4 * kib;

Result<void> add_blocks(StreamHash& hash, const Location& at) {
  std::array<std::byte, block_bytes> memory;
  const u64 bytes = at.tensor->bytes(), last = bytes > block_bytes ? bytes - block_bytes : 0;
  // Blocks at even distances from first to last; in a small tensor they overlap.
  for (u64 i = 0; i < blocks; ++i) {
    const auto block = std::span(memory).first(std::min(block_bytes, bytes));
    TRY(at.file->read(*at.tensor, i * last / (blocks - 1), block));
    hash.update(block);
  }
  return {};
}

}  // namespace

Result<std::string> weights_fingerprint(const std::string& directory) {
  TRY_ASSIGN(const auto model, SafetensorsModel::open(directory, ErrorKind::bad_input));
  std::vector<Location> tensors;
  for (const auto& file : model->files())
    for (const StoredTensor& t : file->tensors()) tensors.push_back({file.get(), &t});
  std::ranges::sort(tensors, {}, [](const Location& at) -> const std::string& { return at.tensor->name; });
  StreamHash hash;
  for (const Location& at : tensors) {
    hash.update(
        fmt::format("{} {} {}\n", at.tensor->name, name(at.tensor->dtype), shape_text(at.tensor->shape)));
    TRY(add_blocks(hash, at));
  }
  return hash_text(hash.digest());
}

}  // namespace tidepool
