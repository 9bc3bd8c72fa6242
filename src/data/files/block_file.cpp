#include "data/files/block_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/read_file.h"

namespace tidepool {
namespace {

constexpr u64 blocks_at_once = 4;

u64 hash_of_block(const std::byte* content, u64 number) {
  return XXH3_64bits_withSeed(content, block_content_bytes, number);
}

}  // namespace

void BlockEncoder::put_block(std::span<const std::byte> content, std::vector<std::byte>& out) {
  const u64 hash = hash_of_block(content.data(), blocks_++);
  const auto head = std::as_bytes(std::span(&hash, 1));
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), content.begin(), content.end());
}

void BlockEncoder::append(std::span<const std::byte> content, std::vector<std::byte>& out) {
  if (!rest_.empty()) {
    const u64 some = std::min<u64>(block_content_bytes - rest_.size(), content.size());
    rest_.insert(rest_.end(), content.begin(), content.begin() + static_cast<i64>(some));
    content = content.subspan(some);
    if (rest_.size() < block_content_bytes) return;
    put_block(rest_, out);
    rest_.clear();
  }
  for (; content.size() >= block_content_bytes; content = content.subspan(block_content_bytes))
    put_block(content.first(block_content_bytes), out);
  rest_.assign(content.begin(), content.end());
}

void BlockEncoder::finish(std::vector<std::byte>& out) {
  if (rest_.empty()) return;
  rest_.resize(block_content_bytes);
  put_block(rest_, out);
  rest_.clear();
}

Result<void> read_blocks(const Fd& fd, const std::string& path, u64 begin, std::span<std::byte> out) {
  alignas(u64) std::array<std::byte, blocks_at_once * block_bytes> memory;
  while (!out.empty()) {
    const u64 first = begin / block_content_bytes, lead = begin % block_content_bytes;
    const u64 count = std::min(blocks_at_once, div_up(lead + out.size(), block_content_bytes));
    TRY(read_exactly(fd, path, first * block_bytes, std::span(memory).first(count * block_bytes),
                     ErrorKind::io));
    for (u64 i = 0; i < count; ++i) {
      const std::byte *block = &memory[i * block_bytes], *content = block + sizeof(u64);
      u64 hash = 0;
      std::memcpy(&hash, block, sizeof hash);
      if (hash_of_block(content, first + i) != hash)
        return Error{
            ErrorKind::bad_input,
            fmt::format("{}: block {} (4096 bytes from byte {}) does not match its checksum: the file "
                        "was changed or damaged",
                        path, first + i, (first + i) * block_bytes)};
      const u64 skip = i == 0 ? lead : 0, some = std::min<u64>(block_content_bytes - skip, out.size());
      std::memcpy(out.data(), content + skip, some);
      out = out.subspan(some);
      begin += some;
    }
  }
  return {};
}

}  // namespace tidepool
