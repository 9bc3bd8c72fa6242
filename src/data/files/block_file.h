// Files of blocks that verify themselves. A block is the XXH3 of its content, seeded with the block's number,
// and 4088 bytes of content; the last one is filled up with zeros. So whoever reads a range finds damage, and
// a block that stands in another's place, in the pass that uses it, at the price of hashing whole blocks.
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

// Length of a file that holds so much content.
constexpr u64 block_file_bytes(u64 content_bytes) {
  return div_up(content_bytes, block_content_bytes) * block_bytes;
}

// Content in, blocks out, in order.
class BlockEncoder {
 public:
  // Adds the blocks that are full now to `out`.
  void append(std::span<const std::byte> content, std::vector<std::byte>& out);
  // Adds the last one. REQUIRES: nothing is appended after it.
  void finish(std::vector<std::byte>& out);

 private:
  void put_block(std::span<const std::byte> content, std::vector<std::byte>& out);

  std::vector<std::byte> rest_;  // of content, less than a block
  u64 blocks_ = 0;
};

// Content from byte `begin` on. REQUIRES: it lies in the file, whose length is what block_file_bytes() says.
// ErrorKind::bad_input names the block that is not what was written; io what cannot be read.
// THREADS: any, at any time. Takes 16 KiB of stack and nothing else.
Result<void> read_blocks(const Fd&, const std::string& path, u64 begin, std::span<std::byte> out);

}  // namespace tidepool
