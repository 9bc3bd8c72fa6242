// StreamHash and hash_of() compute XXH3-64 of streams and texts. xxhash.h stays in the .cpp: it is long.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(StreamHash&&) noexcept;
  StreamHash& operator=(StreamHash&&) noexcept;

  void update(std::span<const std::byte>);
  void update(std::string_view);
  u64 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

u64 hash_of(std::string_view);

// 16 lower-case hex digits, as `xxhsum -H3` and Python's xxhash print it.
std::string hash_text(u64);

}  // namespace tidepool
