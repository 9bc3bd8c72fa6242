// Fuzzes about.json, tokens.bin and documents.bin, concatenated: the first two bytes are the lengths of the
// last two.
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text/seal.h"
#include "data/batches/token_cache.h"
#include "data/files/block_file.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

// Seals the text; without a seal little would be accepted.
std::string about_of(std::string_view text) {
  return sealed(std::string(text.substr(0, text.rfind('}'))) + ",\n");
}

// Encodes blocks like the writer does; a block's content may be anything.
std::string blocks_of(std::string_view content) {
  std::vector<std::byte> blocks;
  BlockEncoder encoder;
  encoder.append(std::as_bytes(std::span(content)), blocks);
  encoder.finish(blocks);
  return {reinterpret_cast<const char*>(blocks.data()), blocks.size()};
}

}  // namespace

void token_cache(std::string_view input) {
  if (input.size() < 2) return;
  const size_t tokens = static_cast<unsigned char>(input[0]),
               documents = static_cast<unsigned char>(input[1]);
  input.remove_prefix(2);
  if (input.size() < tokens + documents) return;
  const std::string cache_directory = folder("cache");
  const size_t about = input.size() - tokens - documents;
  file("cache/about.json", about_of(input.substr(0, about)));
  file("cache/tokens.bin", blocks_of(input.substr(about, tokens)));
  file("cache/documents.bin", blocks_of(input.substr(about + tokens)));
  const auto cache = TokenCache::open(cache_directory, "k");
  if (!cache) return check_refusal(cache.error());
  for (u64 i = 0; i < (*cache)->counts().documents; ++i) {
    const Result<TokenCache::Document> document = (*cache)->document(i);
    if (!document) {
      check_refusal(document.error());
      continue;
    }
    std::vector<u32> out(document->tokens);
    CHECK((*cache)->read(document->first, out).has_value());
  }
}

}  // namespace tidepool::fuzz
