// TextEncoder converts text to token ids: with a tokenizer, or byte by byte.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "huggingface/tokenizer/rewriting.h"

namespace tidepool {

enum class Around : u8 { nothing, special };  // special tokens around a whole text (BOS ...)

// THREADS: any, at any time.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the ids to `out`.
  virtual Result<void> encode(std::string_view text, Around, std::vector<u32>& out) const = 0;
  // The same; `places` gets the bytes of `text` that each id stands for.
  virtual Result<void> encode_with_places(std::string_view text, Around, std::vector<u32>& out,
                                          std::vector<TokenBytes>& places) const = 0;
  // Encodes a part of a text that was cut as cut() says: the parts' ids together are the ids of the whole.
  virtual Result<void> encode_part(std::string_view text, bool first, bool last, Around,
                                   std::vector<u32>& out) const = 0;
  // RETURNS: length of the longest beginning of `text` that may be a part, whatever follows; always shorter
  // than `text`. 0: no such place is known.
  virtual size_t cut(std::string_view text) const = 0;
  virtual std::string decode(std::span<const u32> ids) const = 0;
  virtual std::optional<u32> id_of(std::string_view token) const = 0;
  virtual u32 vocab_size() const = 0;  // highest id + 1
};

// One token per byte.
std::unique_ptr<const TextEncoder> create_byte_encoder();

}  // namespace tidepool
