// Parses post-processors and decoders.
#include <fmt/format.h>

#include <algorithm>

#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/parse_parts.h"

namespace tidepool {

namespace {

Result<std::string> type_of(const JsonNode& node) {
  TRY_ASSIGN(const JsonNode type, node.member("type"));
  return type.text();
}

Result<std::vector<u32>> special_ids(const JsonNode& specials, const JsonNode& piece) {
  TRY_ASSIGN(const JsonNode name_node, piece.member("id"));
  TRY_ASSIGN(const std::string name, name_node.text());
  TRY_ASSIGN(const std::optional<JsonNode> special, specials.find(name));
  if (!special) return name_node.error(fmt::format("'{}' is not among special_tokens", name));
  TRY_ASSIGN(const JsonNode ids, special->member("ids"));
  TRY_ASSIGN(const std::vector<JsonNode> items, ids.items());
  std::vector<u32> out;
  for (const JsonNode& item : items) {
    TRY_ASSIGN(const u32 id, item.number(token_id_max));
    TRY(check_rule_count(item, out.size()));
    out.push_back(id);
  }
  return out;
}

// Reads [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]. Ignores the
// template for pairs of texts.
Result<void> read_template(const JsonNode& node, Frame& frame) {
  TRY(node.expect_keys({"type", "single", "pair", "special_tokens"}));
  TRY_ASSIGN(const JsonNode single, node.member("single"));
  TRY_ASSIGN(const JsonNode specials, node.member("special_tokens"));
  TRY_ASSIGN(const std::vector<JsonNode> pieces, single.items());
  Frame around;
  bool text = false;
  for (const JsonNode& piece : pieces) {
    TRY(piece.expect_keys({"SpecialToken", "Sequence"}));
    TRY_ASSIGN(const std::optional<JsonNode> special, piece.find("SpecialToken"));
    if (special) {
      TRY_ASSIGN(const std::vector<u32> ids, special_ids(specials, *special));
      auto& side = text ? around.behind : around.before;
      TRY(check_rule_count(piece, side.size()));
      side.insert(side.end(), ids.begin(), ids.end());
      continue;
    }
    TRY_ASSIGN(const JsonNode sequence, piece.member("Sequence"));
    TRY_ASSIGN(const JsonNode which, sequence.member("id"));
    TRY_ASSIGN(const std::string name, which.text());
    if (name != "A" || text) return which.error("must be A, and occur once");
    text = true;
  }
  if (!text) return single.error("has no place for the text: a Sequence A is missing");
  around.before.insert(around.before.end(), frame.before.begin(), frame.before.end());
  around.behind.insert(around.behind.begin(), frame.behind.begin(), frame.behind.end());
  frame = std::move(around);
  return {};
}

Result<void> read_post_processor(const JsonNode& node, u32 depth, Frame& frame) {
  TRY_ASSIGN(const std::string type, type_of(node));
  if (type == "ByteLevel") return node.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (type == "TemplateProcessing") return read_template(node, frame);
  if (type != "Sequence") return unsupported_type(node, type, "TemplateProcessing, ByteLevel, Sequence");
  TRY(node.expect_keys({"type", "processors"}));
  if (depth == nested_sequences_max) return node.error("is nested too deeply");
  TRY_ASSIGN(const JsonNode list, node.member("processors"));
  TRY_ASSIGN(const std::vector<JsonNode> items, list.items());
  for (const JsonNode& item : items) TRY(read_post_processor(item, depth + 1, frame));
  return {};
}

// Multiplies `growth` by the most that the rule can lengthen a text. A match has at least one byte, a literal
// its own length.
Result<std::unique_ptr<DecoderStep>> read_replace(const JsonNode& node, u64& growth) {
  TRY(node.expect_keys({"type", "pattern", "content"}));
  TRY_ASSIGN(const JsonNode pattern_node, node.member("pattern"));
  TRY_ASSIGN(ParsedPattern pattern, parse_pattern(pattern_node));
  TRY_ASSIGN(const JsonNode content_node, node.member("content"));
  TRY_ASSIGN(std::string content, content_node.text());
  if (pattern.regex && content.find('$') != std::string::npos)
    return content_node.error("'$' in the replacement of a Regex is not supported");
  TRY(check_rule_text(content_node, content));
  const size_t least = pattern.regex ? 1 : std::max<size_t>(pattern.text.size(), 1);
  growth *= std::max<u64>(div_up(content.size(), least), 1);
  if (growth > decoder_growth_max)
    return node.error(
        fmt::format("and the Replace rules before it could make a text {} times as long; the most "
                    "is {}",
                    growth, decoder_growth_max));
  return decode_replace(std::move(pattern.matcher), std::move(content));
}

Result<std::string> one_character(const JsonNode& node, std::string_view key) {
  TRY_ASSIGN(const JsonNode member, node.member(key));
  TRY_ASSIGN(std::string text, member.text());
  if (!is_one_character(text)) return member.error("must be one character");
  return text;
}

Result<std::unique_ptr<DecoderStep>> read_strip(const JsonNode& node) {
  TRY(node.expect_keys({"type", "content", "start", "stop"}));
  TRY_ASSIGN(std::string character, one_character(node, "content"));
  TRY_ASSIGN(const JsonNode start, node.member("start"));
  TRY_ASSIGN(const JsonNode stop, node.member("stop"));
  StripCounts counts;
  TRY_ASSIGN(counts.start, start.number(none - 1));
  TRY_ASSIGN(counts.stop, stop.number(none - 1));
  return decode_strip(std::move(character), counts);
}

Result<std::unique_ptr<DecoderStep>> read_metaspace(const JsonNode& node) {
  TRY(node.expect_keys({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
  TRY_ASSIGN(std::string replacement, one_character(node, "replacement"));
  TRY_ASSIGN(const bool prefix, node.flag_or("add_prefix_space", true));
  TRY_ASSIGN(const std::string scheme, node.text_or("prepend_scheme", prefix ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return node.error_at(".prepend_scheme", fmt::format("'{}' is not one of never, first, always", scheme));
  return decode_metaspace(std::move(replacement), scheme != "never");
}

Result<void> read_decoder(const JsonNode& node, u32 depth, Decoder& out, u64& growth) {
  TRY_ASSIGN(const std::string type, type_of(node));
  if (type == "Sequence") {
    TRY(node.expect_keys({"type", "decoders"}));
    if (depth == nested_sequences_max) return node.error("is nested too deeply");
    TRY_ASSIGN(const JsonNode list, node.member("decoders"));
    TRY_ASSIGN(const std::vector<JsonNode> items, list.items());
    for (const JsonNode& item : items) TRY(read_decoder(item, depth + 1, out, growth));
    return {};
  }
  const auto add = [&](Result<std::unique_ptr<DecoderStep>> step) -> Result<void> {
    TRY_ASSIGN(std::unique_ptr<DecoderStep> made, std::move(step));
    TRY(check_rule_count(node, out.size()));
    out.push_back(std::move(made));
    return {};
  };
  if (type == "Replace") return add(read_replace(node, growth));
  if (type == "Strip") return add(read_strip(node));
  if (type == "Metaspace") return add(read_metaspace(node));
  if (type == "ByteLevel") {
    TRY(node.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    return add(decode_byte_level());
  }
  if (type != "ByteFallback" && type != "Fuse")
    return unsupported_type(node, type, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence");
  TRY(node.expect_keys({"type"}));
  return add(type == "Fuse" ? decode_fuse() : decode_byte_fallback());
}

}  // namespace

Result<Frame> parse_post_processor(const std::optional<JsonNode>& node) {
  Frame out;
  if (node) TRY(read_post_processor(*node, 0, out));
  return out;
}

Result<Decoder> parse_decoder(const std::optional<JsonNode>& node) {
  Decoder out;
  u64 growth = 1;
  if (node) TRY(read_decoder(*node, 0, out, growth));
  return out;
}

}  // namespace tidepool
