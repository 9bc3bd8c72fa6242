#include "data/tokenizer_encoder.h"

#include "tokenizer/tokenizer.h"

namespace tidepool {

namespace {

class TokenizerEncoder final : public TextEncoder {
 public:
  explicit TokenizerEncoder(std::unique_ptr<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  Result<void> encode(std::string_view text, Around around, std::vector<u32>& out) const override {
    return encode_part(text, true, true, around, out);
  }
  Result<void> encode_with_places(std::string_view text, Around around, std::vector<u32>& out,
                                  std::vector<TokenBytes>& places) const override {
    return tokenizer_->encode_part({.text = text}, special_of(around), out, &places);
  }
  Result<void> encode_part(std::string_view text, bool first, bool last, Around around,
                           std::vector<u32>& out) const override {
    return tokenizer_->encode_part({.text = text, .first = first, .last = last}, special_of(around), out);
  }
  size_t cut(std::string_view text) const override { return tokenizer_->cut(text); }
  std::string decode(std::span<const u32> ids) const override {
    return tokenizer_->decode(ids, SkipSpecial::no);
  }
  std::optional<u32> id_of(std::string_view token) const override { return tokenizer_->id_of(token); }
  u32 vocab_size() const override { return tokenizer_->vocab_size(); }

 private:
  static Special special_of(Around around) {
    return around == Around::special ? Special::added : Special::none;
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

Result<std::unique_ptr<const TextEncoder>> open_tokenizer_encoder(const std::string& tokenizer_json) {
  TRY_ASSIGN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::open(tokenizer_json));
  return std::unique_ptr<const TextEncoder>(std::make_unique<TokenizerEncoder>(std::move(tokenizer)));
}

}  // namespace tidepool
