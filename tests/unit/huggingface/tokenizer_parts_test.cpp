#include <gmock/gmock.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "huggingface/tokenizer/bpe.h"
#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/decoder.h"
#include "huggingface/tokenizer/normalizer.h"
#include "huggingface/tokenizer/regex.h"
#include "huggingface/tokenizer/tokenizer.h"

namespace tidepool::tokenizer_parts_test {

using ::testing::ElementsAre;

std::string nfc_of_all(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(bytes, 0);
  std::string result(reinterpret_cast<char*>(out), static_cast<size_t>(bytes));
  std::free(out);
  return result;
}

// RETURNS: true for characters combining since Unicode 9. Hugging Face's normalizer knows only older ones,
// which the golden files cover.
bool may_differ(u32 character) {
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(character));
  return property->combining_class != 0 || character == 0x11930;
}

// Skipped stretches hold no character that changes, or that joins with a neighbouring character.
TEST(Nfc, NormalizingInPiecesGivesTheWhole) {
  Normalizer steps;
  steps.push_back({normalize_nfc(), "normalizer"});
  NormalState state;
  MatchState match;
  for (u32 character = 1; character < 0x30000; ++character) {
    if (character >= 0xd800 && character < 0xe000) continue;
    if (character >= 0x7fd && may_differ(character)) continue;
    for (const auto& [before, behind] :
         std::initializer_list<std::pair<const char*, const char*>>{{"", ""},
                                                                    {"e", "\u0301"},
                                                                    {"\u1100", "\u11a8"},
                                                                    {"\uac00", "\u0323\u0301"},
                                                                    {"\u0b47", "\u3099x"}}) {
      std::string text = before;
      append_character(text, character);
      text += behind;
      NormalText normal{.text = text};
      ASSERT_EQ(normalize(steps, normal, state, match), Normalized::yes);
      ASSERT_EQ(normal.text, nfc_of_all(text)) << std::hex << character;
    }
  }
}

// Alternating accents are sorted at once, not neighbour by neighbour (3 s for 80 KB).
TEST(Nfc, LongRunsOfCombiningCharactersAreOrderedInOneGo) {
  Normalizer steps;
  steps.push_back({normalize_nfc(), "normalizer"});
  NormalState state;
  MatchState match;
  std::string text = "a", above, below;
  for (u32 i = 0; i < 200'000; ++i) {
    text += "\u0301\u0316";
    above += i == 0 ? "" : "\u0301";
    below += "\u0316";
  }
  NormalText normal{.text = text};
  ASSERT_EQ(normalize(steps, normal, state, match), Normalized::yes);
  EXPECT_EQ(normal.text, "\u00e1" + below + above);
}

// If characters swap or join, a token of one character belongs to all of them, and to no others.
TEST(Nfc, RewrittenTextMapsBackToItsSource) {
  Normalizer steps;
  steps.push_back({prepend_text("_"), "normalizer"});
  steps.push_back({normalize_nfc(), "normalizer"});
  NormalState state;
  state.traced = true;
  MatchState match;
  const std::string text = "ab e\u0301 \u1100\u1161\u11a8\u1100 \u0e01\u0e34 z";
  NormalText normal{.text = text};
  ASSERT_EQ(normalize(steps, normal, state, match), Normalized::yes);
  ASSERT_EQ(state.rewritings_used, 2u);
  const auto source = [&](std::string_view part) {
    size_t begin = normal.text.find(part), end = begin + part.size();
    for (size_t i = 2; i-- > 0;) {
      begin = state.rewritings[i].begin_of(begin);
      end = state.rewritings[i].end_of(end);
    }
    return text.substr(begin, end - begin);
  };
  EXPECT_EQ(source("_"), "");
  EXPECT_EQ(source("_ab"), "ab");
  EXPECT_EQ(source("\u00e9"), "e\u0301");
  EXPECT_EQ(source("\xc3"), "e\u0301");  // part of it
  EXPECT_EQ(source("\uac01"), "\u1100\u1161\u11a8");
  EXPECT_EQ(source("\uac01\u1100"), "\u1100\u1161\u11a8\u1100");
  EXPECT_EQ(source("\u0e34"), "\u0e34");
  EXPECT_EQ(source("z"), "z");
}

// RETURNS: all matches of a pattern, in order.
std::vector<std::string> matches(const char* pattern, const std::string& text) {
  const Result<Regex> regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << pattern;
  std::vector<std::string> out;
  MatchState state;
  Match match;
  for (size_t at = 0; regex && regex->find(text, at, state, match) == Regex::Found::yes; at = match.end)
    out.push_back(text.substr(match.begin, match.end - match.begin));
  return out;
}

// Expected values are the matches of Hugging Face's library.
TEST(Patterns, ScriptsAreWithoutTheirExtensions) {
  const std::string text = "\u4f60\u597d\u3002\u3001\u4e16\u754c";
  EXPECT_THAT(matches(R"(\p{Han}+)", text), ElementsAre("\u4f60\u597d", "\u4e16\u754c"));
  for (const char* other : {R"(\P{Han}+)", R"(\p{^Han}+)", R"([^\p{Han}]+)"})
    EXPECT_THAT(matches(other, text), ElementsAre("\u3002\u3001")) << other;
}

TEST(Patterns, WordClassOutsideASetHasSuperscriptsAndFractions) {
  EXPECT_THAT(matches(R"(\w+)", "+a\u00b2b+\u00be"), ElementsAre("a\u00b2b", "\u00be"));
  EXPECT_THAT(matches(R"(\W+)", "a\u00b2b+c"), ElementsAre("+"));
  EXPECT_THAT(matches(R"([\w]+)", "+a\u00b2b+"), ElementsAre("a", "b"));
  EXPECT_THAT(matches(R"([^\w]+)", "a\u00b2b+c"), ElementsAre("\u00b2", "+"));
}

TEST(Patterns, FormatCharactersOfUnicode15AreKnown) {
  EXPECT_THAT(matches(R"(\p{Cf})", "\U00013439 x"), ElementsAre("\U00013439"));
}

std::vector<u32> ids_of(const std::string& added, const std::string& pre_tokenizer, const std::string& text) {
  const auto tokenizer = Tokenizer::parse(
      R"({"version":"1.0","added_tokens":)" + added + R"(,"normalizer":null,"pre_tokenizer":)" +
          pre_tokenizer +
          R"(,"post_processor":null,"decoder":null,"model":{"type":"BPE","vocab":)"
          R"({"a":0,"\u200d":1,"b":2,"\u200c":3,"\u00b2":4,"a\u200d":5},"merges":["a \u200d"]}})",
      "tokenizer.json");
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  std::vector<u32> ids;
  EXPECT_TRUE(tokenizer && (*tokenizer)->encode(text, Special::none, ids));
  return ids;
}

TEST(Patterns, JoinersBelongToWords) {
  EXPECT_THAT(ids_of("[]", R"({"type":"Whitespace"})", "a\u200d b"), ElementsAre(5, 2));
  const std::string word = R"([{"id":6,"content":"ab","single_word":true}])";
  EXPECT_THAT(ids_of(word, "null", "ab"), ElementsAre(6));
  EXPECT_THAT(ids_of(word, "null", "ab\u200d"), ElementsAre(0, 2, 1));
  EXPECT_THAT(ids_of(word, "null", "\u200cab"), ElementsAre(3, 0, 2));
  EXPECT_THAT(ids_of(word, "null", "ab\u00b2"), ElementsAre(6, 4));
}

TEST(Decoding, InvalidBytesAreReplacedAsTheStandardRecommends) {
  const std::string bad = "\ufffd";
  EXPECT_EQ(utf8_or_replaced("a\xff\xfe"
                             "b"),
            "a" + bad + bad + "b");
  EXPECT_EQ(utf8_or_replaced("\xe2\x82"), bad);
  EXPECT_EQ(utf8_or_replaced("\xe2\x82x\xf0\x9f\x98"), bad + "x" + bad);
  EXPECT_EQ(utf8_or_replaced("\xe2\xe2\x82\xac"), bad + "\u20ac");
  EXPECT_EQ(utf8_or_replaced("\xf0\x80\x80\x80"),
            bad + bad + bad + bad);                              // overlong: nothing begins with F0 80
  EXPECT_EQ(utf8_or_replaced("\xed\xa0\x80"), bad + bad + bad);  // a surrogate
}

// Merges a word of any length one pair at a time, in the simplest way.
std::vector<u32> merged_plainly(std::vector<u32> ids, const std::vector<BpeMerge>& merges) {
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) {
          best = rank;
          at = i;
        }
      }
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best].joined;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsAreMergedLowestRankFirst) {
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
  for (const char letter : {'a', 'b', 'c'}) vocabulary.add(std::string(1, letter), vocabulary.end_id());
  std::mt19937 random(7);
  while (vocabulary.size() < 60) {
    const u32 left = random() % vocabulary.size(), right = random() % vocabulary.size();
    const std::string joined =
        std::string(vocabulary.spelling(left)) + std::string(vocabulary.spelling(right));
    if (joined.size() > 12 || vocabulary.find(joined) != none) continue;
    vocabulary.add(joined, vocabulary.end_id());
    merges.push_back({left, right, vocabulary.find(joined)});
  }
  const Bpe bpe(vocabulary, merges, {});
  BpeState state;
  for (u32 round = 0; round < 2000; ++round) {
    std::string word(1 + random() % (round % 2 == 0 ? 20 : 200), 'a');
    std::vector<u32> letters;
    for (char& letter : word) {
      letters.push_back(random() % 3);
      letter = static_cast<char>('a' + letters.back());
    }
    std::vector<u32> ids;
    ASSERT_TRUE(bpe.encode(word, state, ids, nullptr));
    ASSERT_EQ(ids, merged_plainly(letters, merges)) << word;
    std::vector<u32> again;  // from the cache
    ASSERT_TRUE(bpe.encode(word, state, again, nullptr));
    ASSERT_EQ(again, ids);
  }
}

}  // namespace tidepool::tokenizer_parts_test
