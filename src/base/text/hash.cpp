#include "base/text/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

#include "base/check.h"

namespace tidepool {

struct StreamHash::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    CHECK(XXH3_64bits_reset(xxh) == XXH_OK);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;

  XXH3_state_t* xxh;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {}
StreamHash::~StreamHash() = default;
StreamHash::StreamHash(StreamHash&&) noexcept = default;
StreamHash& StreamHash::operator=(StreamHash&&) noexcept = default;

void StreamHash::update(std::span<const std::byte> bytes) {
  CHECK(XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}
void StreamHash::update(std::string_view text) { update(std::as_bytes(std::span(text))); }
u64 StreamHash::digest() const { return XXH3_64bits_digest(state_->xxh); }

u64 hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string hash_text(u64 hash) { return fmt::format("{:016x}", hash); }

}  // namespace tidepool
