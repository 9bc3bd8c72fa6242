// Compares ids and decoded text with Hugging Face's tokenizers; scripts/make_golden_tokenizers.py made the
// files.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "huggingface/tokenizer/tokenizer.h"
#include "tests/support/json_file.h"
#include "tests/support/places.h"

namespace tidepool::tokenizer_golden_test {

namespace json = boost::json;

const std::string folder = source_file("tests/golden/tokenizers/");

std::vector<u32> numbers_of(const json::value& value) {
  std::vector<u32> out;
  for (const json::value& number : value.as_array()) out.push_back(static_cast<u32>(number.as_int64()));
  return out;
}

std::vector<u32> ids_of(const Tokenizer& tokenizer, const TextPart& part) {
  std::vector<u32> ids;
  const Result<void> done = tokenizer.encode_part(part, Special::added, ids);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return ids;
}

std::unique_ptr<Tokenizer> open_style(const std::string& name) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::open(folder + name + ".json");
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return std::move(tokenizer).value();
}

// Expects that at each place where cut() may cut the text, two parts give the ids of the whole.
// RETURNS: the number of such places.
size_t expect_cuts_harmless(const Tokenizer& tokenizer, std::string_view text,
                            const std::vector<u32>& whole) {
  size_t places = 0;
  for (size_t at = tokenizer.cut(text); at > 0; at = tokenizer.cut(text.substr(0, at))) {
    std::vector<u32> ids = ids_of(tokenizer, {.text = text.substr(0, at), .first = true, .last = false});
    const std::vector<u32> rest = ids_of(tokenizer, {.text = text.substr(at), .first = false, .last = true});
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, whole) << "cut at " << at << " of: " << text;
    ++places;
  }
  return places;
}

// Expects that ids with their bytes are the same ids, in order, and that every byte of the text belongs to a
// token, except bytes that are dropped.
void expect_places(const Tokenizer& tokenizer, std::string_view text, const std::vector<u32>& ids) {
  std::vector<u32> again;
  std::vector<TokenBytes> places;
  ASSERT_TRUE(tokenizer.encode_part({.text = text}, Special::added, again, &places));
  ASSERT_EQ(again, ids);
  ASSERT_EQ(places.size(), ids.size());
  TokenBytes before;
  for (const TokenBytes& place : places) {
    ASSERT_LE(place.begin, place.end);
    ASSERT_LE(place.end, text.size());
    ASSERT_LE(place.begin, before.end) << "a byte without a token: " << text;
    ASSERT_GE(place.begin, before.begin);
    ASSERT_GE(place.end, before.end);
    before = place;
  }
  ASSERT_EQ(before.end, text.size()) << text;
}

class TokenizerStyle : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerStyle, GivesTheIdsAndTextOfHuggingFace) {
  const std::unique_ptr<Tokenizer> tokenizer = open_style(GetParam());
  const json::value strings = json_of_file(folder + "strings.json");
  const json::value golden = json_of_file(folder + GetParam() + ".ids.json");
  const json::array& rows = golden.at("rows").as_array();
  ASSERT_EQ(strings.as_array().size(), rows.size());
  size_t cuts = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string text = string_of(strings.as_array()[i]);
    const json::array& row = rows[i].as_array();
    const std::vector<u32> ids = ids_of(*tokenizer, {.text = text});
    ASSERT_EQ(ids, numbers_of(row[0])) << i << ": " << text;
    const std::string decoded = row.size() > 1 ? string_of(row[1]) : string_of(golden.at("front")) + text;
    ASSERT_EQ(tokenizer->decode(ids, SkipSpecial::no), decoded) << i;
    expect_places(*tokenizer, text, ids);
    cuts += expect_cuts_harmless(*tokenizer, text, ids);
  }
  EXPECT_TRUE(tokenizer->can_cut());
  EXPECT_GT(cuts, rows.size());
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerStyle,
                         testing::Values("gpt2", "llama2", "mistral", "llama3", "qwen", "tekken"),
                         [](const auto& info) { return std::string(info.param); });

// Gives a case's added tokens the ids after all others, as the library does.
void add_tokens(json::object& style, const json::value& change) {
  i64 next = 0;
  for (const auto& member : style.at("model").at("vocab").as_object())
    next = std::max(next, member.value().as_int64());
  json::array& tokens = style.at("added_tokens").as_array();
  for (const json::value& token : tokens) next = std::max(next, token.at("id").as_int64());
  for (const json::value& content : change.at("extra").as_array()) {
    const json::value* known = style.at("model").at("vocab").as_object().if_contains(content.as_string());
    json::object token{{"id", known ? known->as_int64() : ++next},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false}};
    for (const auto& option : change.at("options").as_object()) token[option.key()] = option.value();
    tokens.push_back(std::move(token));
  }
}

json::object changed(json::object style, const json::object& change) {
  for (const auto& member : change) {
    if (member.key() == "model") {
      for (const auto& part : member.value().as_object())
        style.at("model").as_object()[part.key()] = part.value();
    } else if (member.key() == "added_tokens") {
      add_tokens(style, member.value());
    } else {
      style[member.key()] = member.value();
    }
  }
  return style;
}

TEST(TokenizerFeatures, GiveTheIdsAndTextOfHuggingFace) {
  const json::value golden = json_of_file(folder + "features.json");
  const json::array& strings = golden.at("strings").as_array();
  for (const json::value& entry : golden.at("cases").as_array()) {
    const std::string name = string_of(entry.at("name"));
    SCOPED_TRACE(name);
    const json::value style = json_of_file(folder + string_of(entry.at("style")) + ".json");
    const json::object file = changed(style.as_object(), entry.at("change").as_object());
    const auto tokenizer = Tokenizer::parse(json_text(file, JsonStyle::line), name);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (size_t i = 0; i < strings.size(); ++i) {
      const std::string text = string_of(strings[i]);
      const std::vector<u32> ids = ids_of(**tokenizer, {.text = text});
      ASSERT_EQ(ids, numbers_of(entry.at("ids").as_array()[i])) << i << ": " << text;
      ASSERT_EQ((*tokenizer)->decode(ids, SkipSpecial::no), string_of(entry.at("decoded").as_array()[i]))
          << i;
      expect_cuts_harmless(**tokenizer, text, ids);
    }
  }
}

}  // namespace tidepool::tokenizer_golden_test
