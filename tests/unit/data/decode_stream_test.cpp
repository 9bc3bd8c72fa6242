#include "data/documents/decode_stream.h"

#include <gmock/gmock.h>

namespace tidepool::decode_stream_test {

// Ids are bytes, and incomplete characters become U+FFFD, as in tokenizers; a text does not begin with a
// space.
class Bytes8 final : public TextEncoder {
 public:
  Result<void> encode(std::string_view, Around, std::vector<u32>&) const override { return {}; }
  Result<void> encode_with_places(std::string_view, Around, std::vector<u32>&,
                                  std::vector<TokenBytes>&) const override {
    return {};
  }
  Result<void> encode_part(std::string_view, bool, bool, Around, std::vector<u32>&) const override {
    return {};
  }
  size_t cut(std::string_view) const override { return 0; }
  std::string decode(std::span<const u32> ids) const override {
    std::string out;
    for (size_t i = 0; i < ids.size();) {
      const u32 first = ids[i];
      const size_t length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
      if (length == 0 || i + length > ids.size()) {
        out += "\xef\xbf\xbd";
        ++i;
        continue;
      }
      for (size_t k = 0; k < length; ++k) out += static_cast<char>(ids[i++]);
    }
    return !out.empty() && out[0] == ' ' ? out.substr(1) : out;
  }
  std::optional<u32> id_of(std::string_view) const override { return std::nullopt; }
  u32 vocab_size() const override { return 256; }
};

std::vector<std::string> parts_of(const std::string& before, const std::string& text) {
  const Bytes8 encoder;
  const auto ids = [](const std::string& s) {
    std::vector<u32> out;
    for (const unsigned char c : s) out.push_back(c);
    return out;
  };
  DecodeStream stream(encoder, ids(before));
  std::vector<std::string> parts;
  for (const u32 id : ids(text)) parts.push_back(stream.push(id));
  parts.push_back(stream.finish());
  return parts;
}

TEST(DecodeStream, HoldsBackIncompleteCharacters) {
  EXPECT_THAT(parts_of("", "a\xe6\xb0\xb4z"), ::testing::ElementsAre("a", "", "", "\xe6\xb0\xb4", "z", ""));
  EXPECT_THAT(parts_of("", "\xf0\x9f\x8c\x8a"), ::testing::ElementsAre("", "", "", "\xf0\x9f\x8c\x8a", ""));
}

TEST(DecodeStream, PrintsIncompleteCharactersAtTheEnd) {
  EXPECT_THAT(parts_of("", "a\xe6"), ::testing::ElementsAre("a", "", "\xef\xbf\xbd"));
}

TEST(DecodeStream, PrintsBrokenBytesSoonerThanTheEnd) {
  const std::vector<std::string> parts = parts_of("", "\x80\x80\x80\x80\x80");
  EXPECT_FALSE(parts[3].empty());
}

TEST(DecodeStream, KeepsASpaceThatOnlyTheFirstWordOfATextLoses) {
  EXPECT_THAT(parts_of("ab", " c d"), ::testing::ElementsAre(" ", "c", " ", "d", ""));
}

TEST(DecodeStream, SkipsUnknownIds) {
  const Bytes8 encoder;
  DecodeStream stream(encoder, {'a'});
  EXPECT_EQ(stream.push(300), "");
  EXPECT_EQ(stream.push('b'), "b");
}

}  // namespace tidepool::decode_stream_test
