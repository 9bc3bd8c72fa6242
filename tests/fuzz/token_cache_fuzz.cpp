// about.json, tokens.bin and documents.bin, one behind the other: the first two bytes are the lengths of the
// latter two.
#include <algorithm>
#include <vector>

#include "data/token_cache.h"
#include "tests/fuzz/fuzz.h"
#include "text/hash.h"
#include "tidepool/check.h"

namespace tidepool::fuzz {
namespace {

// With the checksum that `documents` has, or little would get past it.
std::string about_of(std::string_view text, std::string_view documents) {
  constexpr std::string_view key = "\"xxh3\": \"";
  std::string out(text);
  const size_t hash = out.find(key) + key.size() + 16;
  if (out.find(key) == out.npos || hash + 16 > out.size()) return out;
  return out.replace(hash, 16, hash_text(hash_of(documents)));
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
  file("cache/about.json", about_of(input.substr(0, about), input.substr(about + tokens)));
  file("cache/tokens.bin", input.substr(about, tokens));
  file("cache/documents.bin", input.substr(about + tokens));
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
