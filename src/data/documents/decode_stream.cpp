#include "data/documents/decode_stream.h"

#include <algorithm>
#include <string_view>

namespace tidepool {

namespace {

constexpr size_t context_tokens = 5;
// A character has at most four bytes and a token at least one, so a character that is still broken after four
// tokens stays broken.
constexpr size_t held_tokens_max = 4;
constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD stands for invalid bytes

}  // namespace

DecodeStream::DecodeStream(const TextEncoder& encoder, std::vector<u32> before)
    : encoder_(encoder),
      ids_(std::move(before)),
      begin_(ids_.size() - std::min(ids_.size(), context_tokens)),
      said_(ids_.size()) {}

std::string DecodeStream::text(size_t end) const {
  return encoder_.decode(std::span(ids_).subspan(begin_, end - begin_));
}

std::string DecodeStream::take(const std::string& all, size_t known) {
  begin_ = said_;
  said_ = ids_.size();
  return all.substr(std::min(known, all.size()));
}

std::string DecodeStream::push(u32 id) {
  if (id >= encoder_.vocab_size()) return "";
  ids_.push_back(id);
  const std::string all = text(ids_.size());
  const bool broken = all.ends_with(replacement) && ids_.size() - said_ < held_tokens_max;
  const size_t known = text(said_).size();
  if (broken || all.size() <= known) return "";
  return take(all, known);
}

std::string DecodeStream::finish() {
  const std::string all = text(ids_.size());
  return take(all, text(said_).size());
}

}  // namespace tidepool
