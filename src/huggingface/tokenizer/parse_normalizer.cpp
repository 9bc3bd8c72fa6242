#include <fmt/format.h>

#include "huggingface/tokenizer/parse_parts.h"

namespace tidepool {

namespace {

Result<void> read_replace(const JsonNode& node, ParsedNormalizer& out) {
  TRY(node.expect_keys({"type", "pattern", "content"}));
  TRY_ASSIGN(const JsonNode pattern_node, node.member("pattern"));
  TRY_ASSIGN(ParsedPattern pattern, parse_pattern(pattern_node));
  TRY_ASSIGN(const JsonNode content_node, node.member("content"));
  TRY_ASSIGN(std::string content, content_node.text());
  TRY(check_rule_text(content_node, content));
  if (pattern.regex && content.find('$') != std::string::npos)
    return content_node.error("'$' in the replacement of a Regex is not supported");
  if (pattern.regex || pattern.text != " " || content != low_line) out.only_spaces = false;
  out.only_nfc = false;
  return out.add(node, replace_matches(std::move(pattern.matcher), std::move(content)));
}

Result<void> read(const JsonNode& node, u32 depth, ParsedNormalizer& out) {
  TRY_ASSIGN(const JsonNode type_node, node.member("type"));
  TRY_ASSIGN(const std::string type, type_node.text());
  if (type == "Sequence") {
    TRY(node.expect_keys({"type", "normalizers"}));
    if (depth == nested_sequences_max) return node.error("is nested too deeply");
    TRY_ASSIGN(const JsonNode list, node.member("normalizers"));
    TRY_ASSIGN(const std::vector<JsonNode> items, list.items());
    for (const JsonNode& item : items) TRY(read(item, depth + 1, out));
    return {};
  }
  if (type == "NFC") {
    TRY(node.expect_keys({"type"}));
    out.only_spaces = false;
    return out.add(node, normalize_nfc());
  }
  if (type == "Prepend") {
    TRY(node.expect_keys({"type", "prepend"}));
    TRY_ASSIGN(const JsonNode prefix_node, node.member("prepend"));
    TRY_ASSIGN(std::string prefix, prefix_node.text());
    out.only_nfc = false;
    TRY(check_rule_text(prefix_node, prefix));
    return out.add(node, prepend_text(std::move(prefix)));
  }
  if (type == "Replace") return read_replace(node, out);
  if (type == "Strip") {
    TRY(node.expect_keys({"type", "strip_left", "strip_right"}));
    TRY_ASSIGN(const bool left, node.flag_or("strip_left", true));
    TRY_ASSIGN(const bool right, node.flag_or("strip_right", true));
    out.only_nfc = out.only_spaces = false;
    return out.add(node, strip_white_space(left, right));
  }
  return unsupported_type(node, type, "NFC, Prepend, Replace, Strip, Sequence");
}

}  // namespace

Result<void> ParsedNormalizer::add(const JsonNode& node, std::unique_ptr<NormalizerStep> step) {
  TRY(check_rule_count(node, steps.size()));
  steps.push_back({.step = std::move(step), .place = node.place()});
  return {};
}

Result<void> check_rule_text(const JsonNode& node, std::string_view text) {
  if (text.size() <= rule_text_bytes_max) return {};
  return node.error(
      fmt::format("puts {} bytes into a text; a rule may put at most {}", text.size(), rule_text_bytes_max));
}

Result<void> check_rule_count(const JsonNode& node, size_t before) {
  if (before < rules_max) return {};
  return node.error(fmt::format("is one rule too many: at most {} are supported", rules_max));
}

Result<ParsedNormalizer> parse_normalizer(const std::optional<JsonNode>& node) {
  ParsedNormalizer out;
  if (node) TRY(read(*node, 0, out));
  return out;
}

}  // namespace tidepool
