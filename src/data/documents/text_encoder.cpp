#include "data/documents/text_encoder.h"

namespace tidepool {

namespace {

class ByteEncoder final : public TextEncoder {
 public:
  Result<void> encode(std::string_view text, Around, std::vector<u32>& out) const override {
    for (const char c : text) out.push_back(static_cast<u8>(c));
    return {};
  }
  Result<void> encode_with_places(std::string_view text, Around around, std::vector<u32>& out,
                                  std::vector<TokenBytes>& places) const override {
    for (u32 i = 0; i < text.size(); ++i) places.push_back({i, i + 1});
    return encode(text, around, out);
  }
  Result<void> encode_part(std::string_view text, bool, bool, Around around,
                           std::vector<u32>& out) const override {
    return encode(text, around, out);
  }
  size_t cut(std::string_view text) const override { return text.empty() ? 0 : text.size() - 1; }
  std::string decode(std::span<const u32> ids) const override {
    std::string out;
    for (const u32 id : ids) out += id < 256 ? static_cast<char>(id) : '?';
    return out;
  }
  std::optional<u32> id_of(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<u8>(token[0]);
  }
  u32 vocab_size() const override { return 256; }
};

}  // namespace

std::unique_ptr<const TextEncoder> create_byte_encoder() { return std::make_unique<ByteEncoder>(); }

}  // namespace tidepool
