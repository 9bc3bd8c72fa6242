// Files of self-verifying blocks. A block is the XXH3 of its content, seeded with the block's number,
// followed by 4088 bytes of content; the last block is padded with zeros. Every read detects damage and
// misplaced blocks without an extra pass; the price is hashing whole blocks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

inline constexpr u64 block_bytes = 4 * kib;  // a page: one read brings content and hash
inline constexpr u64 block_content_bytes = block_bytes - sizeof(u64);

// Length of a file with this many bytes of content.
constexpr u64 block_file_bytes(u64 content_bytes) {
  return div_up(content_bytes, block_content_bytes) * block_bytes;
}

// Turns a stream of content into blocks.
class BlockEncoder {
 public:
  BlockEncoder() = default;
  // Goes on behind `blocks` blocks and the content that follows them, less than a block.
  BlockEncoder(u64 blocks, std::vector<std::byte> rest) : rest_(std::move(rest)), blocks_(blocks) {}
  // Adds all full blocks to `out`.
  void append(std::span<const std::byte> content, std::vector<std::byte>& out);
  // Adds the last, padded block.
  // REQUIRES: append() is not called after it.
  void finish(std::vector<std::byte>& out);

 private:
  void put_block(std::span<const std::byte> content, std::vector<std::byte>& out);

  std::vector<std::byte> rest_;  // content of less than a block
  u64 blocks_ = 0;
};

// Reads content from byte `begin` on. Takes 16 KiB of stack and no other memory.
// REQUIRES: the range lies in the file, whose length is block_file_bytes().
// THREADS: any, at any time.
// Error: bad_input, naming the damaged block; io if reading fails.
Result<void> read_blocks(const Fd&, const std::string& path, u64 begin, std::span<std::byte> out);

}  // namespace tidepool
