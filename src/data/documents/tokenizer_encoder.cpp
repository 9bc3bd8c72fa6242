#include "data/documents/tokenizer_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "huggingface/tokenizer/tokenizer.h"

namespace tidepool {

namespace {

constexpr std::string_view write_anew =
    "write the tokenizer again with transformers, "
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(OUT), and name OUT with data.tokenizer";

// Classes whose post-processor version 4 of transformers replaces according to the flags; version 5 ignores
// the flags. For other classes both versions keep the post-processor.
struct FramedByFlags {
  std::string_view tokenizer_class;
  bool bos_by_default;
};
constexpr std::array<FramedByFlags, 5> framed_by_flags = {{{"LlamaTokenizer", true},
                                                           {"CodeLlamaTokenizer", true},
                                                           {"GemmaTokenizer", true},
                                                           {"CohereTokenizer", true},
                                                           {"GPTNeoXTokenizer", false}}};

class TokenizerEncoder final : public TextEncoder {
 public:
  TokenizerEncoder(std::unique_ptr<Tokenizer> tokenizer, std::optional<Error> frame_unknown)
      : tokenizer_(std::move(tokenizer)), frame_unknown_(std::move(frame_unknown)) {}

  Result<void> encode(std::string_view text, Around around, std::vector<u32>& out) const override {
    return encode_text({.text = text}, around, out, nullptr);
  }
  Result<void> encode_with_places(std::string_view text, Around around, std::vector<u32>& out,
                                  std::vector<TokenBytes>& places) const override {
    return encode_text({.text = text}, around, out, &places);
  }
  Result<void> encode_part(std::string_view text, bool first, bool last, Around around,
                           std::vector<u32>& out) const override {
    return encode_text({.text = text, .first = first, .last = last}, around, out, nullptr);
  }
  size_t cut(std::string_view text) const override { return tokenizer_->cut(text); }
  std::string decode(std::span<const u32> ids) const override {
    return tokenizer_->decode(ids, SkipSpecial::no);
  }
  std::optional<u32> id_of(std::string_view token) const override { return tokenizer_->id_of(token); }
  u32 vocab_size() const override { return tokenizer_->vocab_size(); }

 private:
  Result<void> encode_text(const TextPart& part, Around around, std::vector<u32>& out,
                           std::vector<TokenBytes>* places) const {
    const bool special = around == Around::special;
    if (special && frame_unknown_) return *frame_unknown_;
    return tokenizer_->encode_part(part, special ? Special::added : Special::none, out, places);
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::optional<Error> frame_unknown_;
};

// Refuses a token that only these files name: it would be cut into pieces here, while the library adds it.
Result<void> check_token(const Tokenizer& tokenizer, const TokenizerConfig::Token& token,
                         const std::string& file) {
  const std::optional<u32> id = tokenizer.added_id_of(token.text);
  if (!id && tokenizer.id_of(token.text))
    return bad_input(
        fmt::format("{}: names the token '{}', which {} has in model.vocab but not in added_tokens, so "
                    "that the token would be cut into pieces; {}",
                    token.file, token.text, file, write_anew));
  if (!id)
    return bad_input(fmt::format("{}: names the token '{}', which {} does not have; {}", token.file,
                                 token.text, file, write_anew));
  if (token.id && token.id != id)
    return bad_input(
        fmt::format("{}: gives the token '{}' the id {}, but {} gives it {}; set both to the id that "
                    "the model was trained with",
                    token.file, token.text, *token.id, file, *id));
  return {};
}

struct FrameIds {
  std::vector<u32> before, behind;
  bool operator==(const FrameIds&) const = default;
};

Result<FrameIds> frame_of(const Tokenizer& tokenizer) {
  FrameIds out;
  TRY(tokenizer.encode_part({.text = "", .last = false}, Special::added, out.before));
  TRY(tokenizer.encode_part({.text = "", .first = false}, Special::added, out.behind));
  return out;
}

// Class without suffix: "LlamaTokenizer" for "LlamaTokenizerFast".
std::string_view class_of(const TokenizerConfig::FrameFlags& flags) {
  std::string_view name = flags.tokenizer_class;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name;
}

// True if a text gets a space in front, and another one behind each special token.
bool marks_every_piece(const TextEncoder& text, const TokenizerConfig& beside) {
  const auto eos = beside.special_tokens.find("eos_token");
  const auto end = eos == beside.special_tokens.end() ? std::nullopt : text.id_of(eos->second);
  std::vector<u32> letter, behind_end;
  if (!end || !text.encode("a", Around::nothing, letter) ||
      !text.encode(eos->second + "a", Around::nothing, behind_end))
    return false;
  const auto space = text.id_of("\u2581"), joined = text.id_of("\u2581a");
  const bool in_front = !letter.empty() && (letter[0] == space || letter[0] == joined);
  return in_front && behind_end.size() == letter.size() + 1 && behind_end[0] == *end &&
         std::equal(letter.begin(), letter.end(), behind_end.begin() + 1);
}

// Special ids around a text according to the flags; none if the flags are missing or have no effect.
std::optional<FrameIds> frame_by_flags(const Tokenizer& tokenizer, const TokenizerConfig& beside) {
  const TokenizerConfig::FrameFlags& flags = beside.frame;
  if (!flags.add_bos_token && !flags.add_eos_token) return std::nullopt;
  const std::string_view name = class_of(flags);
  const auto found = std::ranges::find(framed_by_flags, name, &FramedByFlags::tokenizer_class);
  if (found == framed_by_flags.end()) return std::nullopt;
  FrameIds out;
  const auto add = [&](const char* token_name, bool wanted, std::vector<u32>& side) {
    if (!wanted) return true;
    const auto token = beside.special_tokens.find(token_name);
    const auto id = token == beside.special_tokens.end() ? std::nullopt : tokenizer.id_of(token->second);
    if (id) side.push_back(*id);
    return id.has_value();
  };
  const bool known = add("bos_token", flags.add_bos_token.value_or(found->bos_by_default), out.before) &&
                     add("eos_token", flags.add_eos_token.value_or(false), out.behind);
  return known ? std::optional(out) : std::nullopt;
}

// RETURNS: none if the files agree.
std::optional<Error> contradiction(const Tokenizer& tokenizer, const FrameIds& is,
                                   const TokenizerConfig& beside, const std::string& file) {
  const std::optional<FrameIds> wanted = frame_by_flags(tokenizer, beside);
  if (!wanted || is == *wanted) return std::nullopt;
  return bad_input(fmt::format(
      "{}: add_bos_token and add_eos_token put the ids {} before a text and {} behind it for {}, but the "
      "post_processor of {} puts {} and {}; version 4 of transformers follows the flags, version 5 the "
      "post_processor: set both to what the model was trained with, or remove the two flags to follow {}",
      beside.frame.file, wanted->before, wanted->behind, beside.frame.tokenizer_class, file, is.before,
      is.behind, file));
}

}  // namespace

Result<std::unique_ptr<const TextEncoder>> open_tokenizer_encoder(const std::string& tokenizer_json,
                                                                  const TokenizerConfig& beside) {
  TRY_ASSIGN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::open(tokenizer_json));
  for (const TokenizerConfig::Token& token : beside.tokens)
    TRY(check_token(*tokenizer, token, tokenizer_json));
  TRY_ASSIGN(const FrameIds frame, frame_of(*tokenizer));
  std::optional<Error> frame_unknown = contradiction(*tokenizer, frame, beside, tokenizer_json);
  return std::unique_ptr<const TextEncoder>(
      std::make_unique<TokenizerEncoder>(std::move(tokenizer), std::move(frame_unknown)));
}

std::optional<std::string> note_of_other_ids(const TextEncoder& text, const std::string& tokenizer_json,
                                             const TokenizerConfig& beside) {
  if (class_of(beside.frame) != "LlamaTokenizer" || beside.frame.legacy.value_or(false) ||
      !marks_every_piece(text, beside))
    return std::nullopt;
  return fmt::format(
      "data: {} puts a space behind every special token, as version 4 of transformers does; version 5 does "
      "not, because {} does not say legacy: true. For the ids of version 5, {}",
      tokenizer_json, beside.frame.file, write_anew);
}

}  // namespace tidepool
