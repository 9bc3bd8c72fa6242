// Text to token ids: a tokenizer, or bytes as they are.
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

enum class Around : u8 { nothing, special };  // what the tokenizer puts around a whole text (BOS ...)

// Any thread may call at any time.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends to `out`.
  virtual Result<void> encode(std::string_view text, Around, std::vector<u32>& out) const = 0;
  // And for each id the bytes of `text` that it stands for.
  virtual Result<void> encode_with_places(std::string_view text, Around, std::vector<u32>& out,
                                          std::vector<TokenBytes>& places) const = 0;
  // A part of a text that was cut where cut() says: parts one by one give the ids of the whole.
  virtual Result<void> encode_part(std::string_view text, bool first, bool last, Around,
                                   std::vector<u32>& out) const = 0;
  // The most bytes at the front of `text` that may be a part, whatever follows; some of
  // it always remains. 0: no such place is known.
  virtual size_t cut(std::string_view text) const = 0;
  virtual std::string decode(std::span<const u32> ids) const = 0;
  virtual std::optional<u32> id_of(std::string_view token) const = 0;
  virtual u32 vocab_size() const = 0;  // highest id + 1
};

// A token is a byte.
std::unique_ptr<const TextEncoder> create_byte_encoder();

}  // namespace tidepool
