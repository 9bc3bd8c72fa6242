// Parser of `pre_tokenizer` in tokenizer.json: makes the splitters that it describes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>

#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/parse_parts.h"
#include "huggingface/tokenizer/pattern.h"

namespace tidepool {

namespace {

constexpr std::string_view supported =
    "ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Sequence";

class Reader {
 public:
  Result<void> read(const JsonNode& node, u32 depth) {
    TRY_ASSIGN(const JsonNode type_node, node.member("type"));
    TRY_ASSIGN(const std::string type, type_node.text());
    if (type == "Sequence") return sequence(node, depth);
    TRY(check_rule_count(node, count_));
    if (out_.byte_level) {  // a ByteLevel rule came before this one
      if (++respelled_ > respelled_max)
        return node.error(fmt::format("follows more than {} ByteLevel rules, each of which may double a text",
                                      respelled_max));
      out_.steps.push_back(bytes_as_characters());
      out_.byte_level = false;
      out_.harmless = false;
    }
    ++count_;
    if (type == "ByteLevel") return byte_level(node);
    if (type == "Split") return split(node);
    if (type == "Digits") return digits(node);
    if (type == "Metaspace") return metaspace(node);
    if (type == "Whitespace") return whitespace(node);
    if (type == "WhitespaceSplit") return whitespace_split(node);
    return unsupported_type(node, type, supported);
  }

  ParsedPreTokenizer take() {
    if (count_ != 1) out_.low_line = false;
    return std::move(out_);
  }

 private:
  static constexpr u32 respelled_max = 3;

  Result<void> sequence(const JsonNode& node, u32 depth) {
    TRY(node.expect_keys({"type", "pretokenizers"}));
    if (depth == nested_sequences_max) return node.error("is nested too deeply");
    TRY_ASSIGN(const JsonNode list, node.member("pretokenizers"));
    TRY_ASSIGN(const std::vector<JsonNode> items, list.items());
    for (const JsonNode& item : items) TRY(read(item, depth + 1));
    return {};
  }

  void know(KnownPattern known) {
    if (known == KnownPattern::unknown) out_.harmless = false;
    if (known == KnownPattern::cutting) out_.cuts_letter_space = true;
  }

  Result<void> byte_level(const JsonNode& node) {
    TRY(node.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    TRY_ASSIGN(const JsonNode prefix_node, node.member("add_prefix_space"));
    TRY_ASSIGN(const bool prefix, prefix_node.flag());
    TRY_ASSIGN(const bool use_regex, node.flag_or("use_regex", true));
    if (prefix) {
      // A part that begins with a space is unchanged, but a part that begins with a line feed gets a prefix.
      if (!out_.steps.empty()) out_.harmless = false;
      out_.only_before_space = true;
      out_.steps.push_back(prefix_space());
    }
    if (use_regex) {
      TRY_ASSIGN(Regex regex, Regex::compile(gpt2_pattern));
      know(KnownPattern::cutting);
      out_.steps.push_back(make_split(match_regex(std::move(regex)), {}));
    }
    out_.byte_level = true;
    return {};
  }

  Result<void> split(const JsonNode& node) {
    TRY(node.expect_keys({"type", "pattern", "behavior", "invert"}));
    TRY_ASSIGN(const JsonNode pattern_node, node.member("pattern"));
    TRY_ASSIGN(ParsedPattern pattern, parse_pattern(pattern_node));
    TRY_ASSIGN(const JsonNode behavior_node, node.member("behavior"));
    TRY_ASSIGN(const std::string name, behavior_node.text());
    TRY_ASSIGN(const bool invert, node.flag_or("invert", false));
    constexpr std::array<std::string_view, 5> names = {"Removed", "Isolated", "MergedWithPrevious",
                                                       "MergedWithNext", "Contiguous"};
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      return behavior_node.error(fmt::format("'{}' is not one of {}", name, fmt::join(names, ", ")));
    const auto behavior = static_cast<Behavior>(found - names.begin());
    const bool known = pattern.regex && behavior == Behavior::isolated;
    know(known ? known_pattern(pattern.text) : KnownPattern::unknown);
    out_.steps.push_back(make_split(std::move(pattern.matcher), {.behavior = behavior, .invert = invert}));
    return {};
  }

  Result<void> digits(const JsonNode& node) {
    TRY(node.expect_keys({"type", "individual_digits"}));
    TRY_ASSIGN(const bool individual, node.flag_or("individual_digits", false));
    know(KnownPattern::harmless);
    out_.steps.push_back(
        make_split(match_numeric(), {.behavior = individual ? Behavior::isolated : Behavior::contiguous}));
    return {};
  }

  // Older files have add_prefix_space, newer ones prepend_scheme, some have both.
  Result<Prepend> prepend_of(const JsonNode& node) {
    TRY_ASSIGN(const std::optional<JsonNode> older, node.find("add_prefix_space"));
    TRY_ASSIGN(const bool prefix, node.flag_or("add_prefix_space", true));
    TRY_ASSIGN(const std::optional<JsonNode> scheme, node.find("prepend_scheme"));
    if (!scheme) return prefix ? Prepend::always : Prepend::never;
    TRY_ASSIGN(const std::string name, scheme->text());
    constexpr std::array<std::string_view, 3> names = {"never", "first", "always"};
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      return scheme->error(fmt::format("'{}' is not one of never, first, always", name));
    if (older && !prefix && name != "never")
      return scheme->error("contradicts add_prefix_space, which is false; remove one of the two");
    return static_cast<Prepend>(found - names.begin());
  }

  Result<void> metaspace(const JsonNode& node) {
    TRY(node.expect_keys({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
    TRY_ASSIGN(const JsonNode replacement_node, node.member("replacement"));
    TRY_ASSIGN(const std::string replacement, replacement_node.text());
    if (!is_one_character(replacement)) return replacement_node.error("must be one character");
    TRY_ASSIGN(const Prepend prepend, prepend_of(node));
    TRY_ASSIGN(const bool splits, node.flag_or("split", true));
    if (replacement != low_line || !out_.steps.empty()) out_.harmless = false;
    out_.only_before_space = true;
    out_.cuts_letter_space = out_.cuts_letter_space || splits;
    out_.low_line = true;
    out_.steps.push_back(replace_spaces(replacement, prepend));
    if (splits)
      out_.steps.push_back(make_split(match_literal(replacement), {.behavior = Behavior::merged_with_next}));
    return {};
  }

  Result<void> whitespace(const JsonNode& node) {
    TRY(node.expect_keys({"type"}));
    TRY_ASSIGN(Regex regex, Regex::compile(fmt::format(R"([{0}]+|[^{0}\s]+)", rust_word)));
    know(KnownPattern::unknown);
    out_.steps.push_back(
        make_split(match_regex(std::move(regex)), {.behavior = Behavior::removed, .invert = true}));
    return {};
  }

  Result<void> whitespace_split(const JsonNode& node) {
    TRY(node.expect_keys({"type"}));
    know(KnownPattern::unknown);
    out_.steps.push_back(make_split(match_white_space(), {.behavior = Behavior::removed}));
    return {};
  }

  ParsedPreTokenizer out_;
  u32 count_ = 0;
  u32 respelled_ = 0;  // ByteLevel rules that are followed by others
};

}  // namespace

Error unsupported_type(const JsonNode& node, std::string_view type, std::string_view supported) {
  return node.error(
      fmt::format("type '{}' is not supported (supported are {}); tokenize with the library that "
                  "made the file, and train on the token files",
                  type, supported));
}

Result<ParsedPattern> parse_pattern(const JsonNode& node) {
  TRY(node.expect_keys({"String", "Regex"}));
  TRY_ASSIGN(const std::optional<JsonNode> regex, node.find("Regex"));
  TRY_ASSIGN(const std::optional<JsonNode> literal, node.find("String"));
  if (regex.has_value() == literal.has_value()) return node.error("must hold either 'String' or 'Regex'");
  ParsedPattern out{.regex = regex.has_value()};
  TRY_ASSIGN(out.text, (regex ? *regex : *literal).text());
  if (out.text.empty()) return node.error("an empty pattern is not supported");
  if (literal) {
    out.matcher = match_literal(out.text);
    return out;
  }
  Result<Regex> compiled = Regex::compile(out.text);
  if (!compiled) return regex->error(compiled.error().message);
  out.matcher = match_regex(std::move(*compiled));
  return out;
}

Result<ParsedPreTokenizer> parse_pre_tokenizer(const std::optional<JsonNode>& node) {
  Reader reader;
  if (node) TRY(reader.read(*node, 0));
  return reader.take();
}

}  // namespace tidepool
