#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "huggingface/tokenizer/parse_parts.h"

namespace tidepool {

namespace json = boost::json;

namespace {

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

Result<void> read_vocabulary(const JsonNode& node, Vocabulary& out) {
  if (!node.value().is_object()) return node.error("must be an object from token to id");
  for (const auto& member : node.value().get_object()) {
    const std::string_view token(member.key().data(), member.key().size());
    const json::value& id = member.value();
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > token_id_max)
      return node.error_at(fmt::format("['{}']", token),
                           fmt::format("an id must be a whole number from 0 to {}", token_id_max));
    const u32 number = static_cast<u32>(id.get_int64());
    if (!out.add(token, number))
      return node.error_at(
          fmt::format("['{}']", token),
          fmt::format("has the id {}, which '{}' has, too; ids must differ", number, out.spelling(number)));
  }
  if (out.size() == 0) return node.error("is empty");
  return {};
}

// Reads one merge: "a b" or ["a", "b"].
Result<std::pair<std::string_view, std::string_view>> merge_of(const json::value& item,
                                                               const JsonNode& merges, size_t index) {
  const auto wrong = [&](std::string_view reason) {
    return merges.error_at(fmt::format("[{}]", index), reason);
  };
  if (item.is_string()) {
    const std::string_view text = view(item.get_string());
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return wrong("must be two tokens with one space between them");
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!item.is_array() || item.get_array().size() != 2 || !item.get_array()[0].is_string() ||
      !item.get_array()[1].is_string())
    return wrong("must be \"a b\" or [\"a\", \"b\"]");
  return std::pair(view(item.get_array()[0].get_string()), view(item.get_array()[1].get_string()));
}

Result<void> read_merges(const JsonNode& node, ParsedModel& out) {
  if (!node.value().is_array()) return node.error("must be an array");
  const json::array& items = node.value().get_array();
  out.merges.reserve(items.size());
  const std::string& prefix = out.options.continuing_subword_prefix;
  std::string joined;
  for (size_t i = 0; i < items.size(); ++i) {
    TRY_ASSIGN(const auto pair, merge_of(items[i], node, i));
    const auto [left, right] = pair;
    if (!right.starts_with(prefix))
      return node.error_at(fmt::format("[{}]", i),
                           fmt::format("'{}' does not begin with continuing_subword_prefix", right));
    joined = left;
    joined += right.substr(prefix.size());
    const BpeMerge merge{out.vocabulary.find(left), out.vocabulary.find(right), out.vocabulary.find(joined)};
    for (const auto& [id, token] : {std::pair(merge.left, left), std::pair(merge.right, right),
                                    std::pair(merge.joined, std::string_view(joined))}) {
      if (id == none)
        return node.error_at(fmt::format("[{}]", i), fmt::format("'{}' is not in model.vocab", token));
    }
    out.merges.push_back(merge);
  }
  return {};
}

}  // namespace

Result<ParsedModel> parse_model(const JsonNode& node) {
  TRY_ASSIGN(const std::string type, node.text_or("type", "BPE"));
  if (type != "BPE") return unsupported_type(node, type, "BPE");
  TRY(node.expect_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                        "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  TRY_ASSIGN(const std::optional<JsonNode> dropout, node.find("dropout"));
  if (dropout && !(dropout->value().is_double() && dropout->value().get_double() == 0))
    return dropout->error(
        "dropout of merges is not supported: the same text would have other tokens each time; set it to "
        "null");
  ParsedModel out;
  TRY_ASSIGN(out.options.continuing_subword_prefix, node.text_or("continuing_subword_prefix", ""));
  TRY_ASSIGN(out.options.end_of_word_suffix, node.text_or("end_of_word_suffix", ""));
  TRY_ASSIGN(out.options.fuse_unk, node.flag_or("fuse_unk", false));
  TRY_ASSIGN(out.options.byte_fallback, node.flag_or("byte_fallback", false));
  TRY_ASSIGN(out.options.ignore_merges, node.flag_or("ignore_merges", false));
  TRY_ASSIGN(const JsonNode vocabulary, node.member("vocab"));
  TRY(read_vocabulary(vocabulary, out.vocabulary));
  TRY_ASSIGN(const JsonNode merges, node.member("merges"));
  TRY(read_merges(merges, out));
  TRY_ASSIGN(const std::string unk, node.text_or("unk_token", ""));  // GPT-2's file has ""
  if (!unk.empty()) {
    out.options.unk = out.vocabulary.find(unk);
    if (out.options.unk == none)
      return node.error_at(".unk_token", fmt::format("'{}' is not in model.vocab", unk));
  }
  return out;
}

Result<std::vector<AddedToken>> parse_added_tokens(const std::optional<JsonNode>& node,
                                                   const Vocabulary& vocabulary) {
  std::vector<AddedToken> out;
  if (!node) return out;
  TRY_ASSIGN(const std::vector<JsonNode> items, node->items());
  StringIds seen;
  u32 next = vocabulary.size();
  for (const JsonNode& item : items) {
    TRY(item.expect_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    AddedToken token;
    TRY_ASSIGN(const JsonNode id, item.member("id"));
    TRY_ASSIGN(token.id, id.number(token_id_max));
    TRY_ASSIGN(const JsonNode content, item.member("content"));
    TRY_ASSIGN(token.content, content.text());
    TRY_ASSIGN(token.single_word, item.flag_or("single_word", false));
    TRY_ASSIGN(token.lstrip, item.flag_or("lstrip", false));
    TRY_ASSIGN(token.rstrip, item.flag_or("rstrip", false));
    TRY_ASSIGN(token.special, item.flag_or("special", false));
    TRY_ASSIGN(token.normalized, item.flag_or("normalized", !token.special));
    if (token.content.empty()) return content.error("must not be empty");
    if (seen.find(token.content) != none)
      return content.error(fmt::format("'{}' appears twice", token.content));
    seen.add(token.content, token.id);
    // The library ignores the file here: added tokens that are not in the vocabulary get the next free ids,
    // in order.
    const u32 known = vocabulary.find(token.content);
    const u32 expected = known != none ? known : next;
    if (token.id != expected)
      return id.error(fmt::format("'{}' has the id {}, but {} {}; give it that id", token.content, token.id,
                                  known != none ? "in model.vocab it is" : "the next free one is", expected));
    if (known == none) ++next;
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace tidepool
