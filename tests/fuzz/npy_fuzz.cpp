// Fuzzes token files: .npy, or (if the first byte is 1) llm.c's format in the bytes after it.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "data/files/token_file.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void npy(std::string_view input) {
  const bool llmc = input.starts_with('\1');
  const std::string path = llmc ? file("fuzz.bin", input.substr(1)) : file("fuzz.npy", input);
  const auto opened = TokenFile::open(path, llmc ? DataFormat::llmc : DataFormat::automatic);
  if (!opened) return check_refusal(opened.error());
  u64 visited = 0;
  const Result<void> scanned =
      opened->scan(1000, [&](std::span<const std::byte> bytes) { visited += bytes.size(); });
  if (!scanned) return check_refusal(scanned.error());
  CHECK(visited == opened->tokens() * opened->token_bytes() && visited <= input.size(), visited);
  std::vector<i32> out(std::min<u64>(opened->tokens(), 64));
  CHECK(opened->read(opened->tokens() - out.size(), out, 1000).has_value());
  for (const i32 id : out) CHECK(id >= 0 && id < 1000, id);
}

}  // namespace tidepool::fuzz
