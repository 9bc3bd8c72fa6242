#include "huggingface/tokenizer/decoder.h"

#include <charconv>
#include <optional>

#include "base/text/utf8.h"
#include "huggingface/tokenizer/byte_alphabet.h"
#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/normalizer.h"

namespace tidepool {

namespace {

constexpr std::string_view replacement_character = "\ufffd";

bool is_utf8(std::string_view bytes) {
  Utf8Checker checker;
  return !checker.feed(std::as_bytes(std::span(bytes))) && !checker.finish();
}

class ByteLevelStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, MatchState&) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += spelled_bytes(token).value_or(token);
    tokens.assign(1, utf8_or_replaced(bytes));
  }
};

class ReplaceStep final : public DecoderStep {
 public:
  ReplaceStep(std::unique_ptr<Matcher> matcher, std::string content)
      : replace_(replace_matches(std::move(matcher), std::move(content))) {}
  void apply(std::vector<std::string>& tokens, MatchState& match) const override {
    NormalState unused;
    bool gave_up = false;
    for (std::string& token : tokens) {
      NormalText text{.text = token};
      std::string out;
      if (replace_->apply(text, out, unused, match, gave_up)) token = std::move(out);
    }
  }

 private:
  std::unique_ptr<NormalizerStep> replace_;
};

// Parses a spelling such as "<0x0A>"; none if it is not a byte.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  u8 byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

class ByteFallbackStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, MatchState&) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(replacement_character));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of_token(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
};

class FuseStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, MatchState&) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  }
};

class StripStep final : public DecoderStep {
 public:
  StripStep(std::string character, StripCounts counts) : character_(std::move(character)), counts_(counts) {}
  void apply(std::vector<std::string>& tokens, MatchState&) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (u32 i = 0; i < counts_.start && rest.starts_with(character_); ++i)
        rest.remove_prefix(character_.size());
      for (u32 i = 0; i < counts_.stop && rest.ends_with(character_); ++i)
        rest.remove_suffix(character_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string character_;
  StripCounts counts_;
};

class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(std::string replacement, bool drop_in_first)
      : replacement_(std::move(replacement)), drop_in_first_(drop_in_first) {}
  void apply(std::vector<std::string>& tokens, MatchState&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string_view space = i == 0 && drop_in_first_ ? "" : " ";
      std::string out;
      std::string_view rest = tokens[i];
      for (size_t at; (at = rest.find(replacement_)) != std::string_view::npos;
           rest.remove_prefix(at + replacement_.size())) {
        out += rest.substr(0, at);
        out += space;
      }
      out += rest;
      tokens[i] = std::move(out);
    }
  }

 private:
  std::string replacement_;
  bool drop_in_first_;
};

}  // namespace

std::string utf8_or_replaced(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    Utf8Checker checker;
    const auto bad = checker.feed(std::as_bytes(std::span(bytes)));
    if (!bad) {
      const auto cut_off = checker.finish();
      out += bytes.substr(0, cut_off.value_or(bytes.size()));
      if (cut_off) out += replacement_character;
      break;
    }
    // The byte at `bad` does not continue the character that began before it. The incomplete character
    // becomes one replacement, and the byte may begin a new character. A byte that cannot begin a character
    // becomes a replacement of its own.
    Utf8Checker before;
    (void)before.feed(std::as_bytes(std::span(bytes.substr(0, *bad))));
    const auto begun = before.finish();
    out += bytes.substr(0, begun.value_or(*bad));
    out += replacement_character;
    bytes.remove_prefix(begun ? *bad : *bad + 1);
  }
  return out;
}

std::unique_ptr<DecoderStep> decode_byte_level() { return std::make_unique<ByteLevelStep>(); }
std::unique_ptr<DecoderStep> decode_replace(std::unique_ptr<Matcher> matcher, std::string content) {
  return std::make_unique<ReplaceStep>(std::move(matcher), std::move(content));
}
std::unique_ptr<DecoderStep> decode_byte_fallback() { return std::make_unique<ByteFallbackStep>(); }
std::unique_ptr<DecoderStep> decode_fuse() { return std::make_unique<FuseStep>(); }
std::unique_ptr<DecoderStep> decode_strip(std::string character, StripCounts counts) {
  return std::make_unique<StripStep>(std::move(character), counts);
}
std::unique_ptr<DecoderStep> decode_metaspace(std::string replacement, bool drop_in_first) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), drop_in_first);
}

}  // namespace tidepool
