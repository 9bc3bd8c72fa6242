// about.json, tokens.bin and documents.bin, one behind the other: the first two bytes are the lengths of the latter two.
#include <algorithm>
#include <vector>

#include "data/token_cache.h"
#include "tests/fuzz/fuzz.h"
#include "tidepool/check.h"

namespace tidepool::fuzz {

void token_cache(std::string_view input) {
  if (input.size() < 2) return;
  const size_t tokens = static_cast<unsigned char>(input[0]), documents = static_cast<unsigned char>(input[1]);
  input.remove_prefix(2);
  if (input.size() < tokens + documents) return;
  const std::string cache_directory = folder("cache");
  const size_t about = input.size() - tokens - documents;
  file("cache/about.json", input.substr(0, about));
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
