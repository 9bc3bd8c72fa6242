// Malformed or unsupported tokenizer.json: each gives ErrorKind::bad_input (exit code 4) and names place and
// reason.
#include <gmock/gmock.h>

#include <array>

#include "huggingface/tokenizer/bpe.h"
#include "huggingface/tokenizer/pattern.h"
#include "huggingface/tokenizer/regex.h"
#include "huggingface/tokenizer/tokenizer.h"

namespace tidepool::tokenizer_refusals_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// RETURNS: a valid file, except for the given part.
std::string file_with(const std::string& key, const std::string& value) {
  const std::array<std::pair<std::string, std::string>, 6> parts = {{
      {"added_tokens", R"([{"id":4,"content":"<s>","special":true}])"},
      {"normalizer", "null"},
      {"pre_tokenizer", "null"},
      {"post_processor", "null"},
      {"decoder", "null"},
      {"model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":["a b"]})"},
  }};
  std::string out = R"({"version":"1.0")";
  bool replaced = false;
  for (const auto& [name, preset] : parts) {
    out += ",\"" + name + "\":" + (name == key ? value : preset);
    replaced = replaced || name == key;
  }
  if (!replaced && !key.empty()) out += ",\"" + key + "\":" + value;
  return out + "}";
}

struct Bad {
  const char* key;
  const char* value;
  const char* place;
  const char* reason;
};

const auto bad_files = std::to_array<Bad>({
    {"model", "null", "model", "must be an object"},
    {"model", "[1]", "model", "must be an object"},
    {"model", R"({"type":"Unigram","vocab":[]})", "model", "type 'Unigram' is not supported"},
    {"model", R"({"type":"WordPiece","vocab":{}})", "model", "type 'WordPiece'"},
    {"model", R"({"type":"BPE","merges":[]})", "model", "has no 'vocab'"},
    {"model", R"({"type":"BPE","vocab":{},"merges":[]})", "model.vocab", "is empty"},
    {"model", R"({"type":"BPE","vocab":{"a":0}})", "model", "has no 'merges'"},
    {"model", R"({"type":"BPE","vocab":[1],"merges":[]})", "model.vocab", "must be an object"},
    {"model", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})", "model.vocab['a']", "whole number"},
    {"model", R"({"type":"BPE","vocab":{"a":1.5},"merges":[]})", "model.vocab['a']", "whole number"},
    {"model", R"({"type":"BPE","vocab":{"a":99999999999},"merges":[]})", "model.vocab['a']", "whole number"},
    {"model", R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})", "model.vocab['b']", "ids must differ"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":["a"]})", "model.merges[0]", "two tokens"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":["a a a"]})", "model.merges[0]", "two tokens"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":[["a"]]})", "model.merges[0]", "must be"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":[7]})", "model.merges[0]", "must be"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":{}})", "model.merges", "must be an array"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":["a x"]})", "model.merges[0]",
     "'x' is not in model.vocab"},
    {"model", R"({"type":"BPE","vocab":{"a":0},"merges":["a a"]})", "model.merges[0]",
     "'aa' is not in model.vocab"},
    {"model", R"({"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]})", "model.dropout",
     "not supported"},
    {"model", R"({"type":"BPE","unk_token":"?","vocab":{"a":0},"merges":[]})", "model.unk_token",
     "not in model.vocab"},
    {"model", R"({"type":"BPE","byte_fallback":1,"vocab":{"a":0},"merges":[]})", "model.byte_fallback",
     "true or false"},
    {"model", R"({"type":"BPE","new_key":1,"vocab":{"a":0},"merges":[]})", "model.new_key",
     "is not supported"},
    {"version", "\"2.0\"", "version", "1.0 is"},
    {"surprise", "1", "surprise", "is not supported"},
    {"added_tokens", "{}", "added_tokens", "must be an array"},
    {"added_tokens", R"([{"content":"x"}])", "added_tokens[0]", "has no 'id'"},
    {"added_tokens", R"([{"id":4,"content":""}])", "added_tokens[0].content", "empty"},
    {"added_tokens", R"([{"id":9,"content":"x"}])", "added_tokens[0].id", "give it that id"},
    {"added_tokens", R"([{"id":1,"content":"a"}])", "added_tokens[0].id", "in model.vocab it is 0"},
    {"added_tokens", R"([{"id":4,"content":"x"},{"id":5,"content":"x"}])", "added_tokens[1].content",
     "twice"},
    {"added_tokens", R"([{"id":4,"content":"x","lstrip":"no"}])", "added_tokens[0].lstrip", "true or false"},
    {"normalizer", R"({"type":"Lowercase"})", "normalizer", "type 'Lowercase' is not supported"},
    {"normalizer", R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKC"}]})",
     "normalizer.normalizers[1]", "'NFKC'"},
    {"normalizer", R"({"type":"Replace","pattern":{"String":""},"content":"x"})", "normalizer.pattern",
     "empty pattern"},
    {"normalizer", R"({"type":"Replace","pattern":{},"content":"x"})", "normalizer.pattern", "either"},
    {"normalizer", R"x({"type":"Replace","pattern":{"Regex":"(a)"},"content":"$1"})x", "normalizer.content",
     "'$'"},
    {"normalizer", R"({"pattern":1})", "normalizer", "has no 'type'"},
    {"pre_tokenizer", R"({"type":"BertPreTokenizer"})", "pre_tokenizer", "'BertPreTokenizer'"},
    {"pre_tokenizer", R"({"type":"ByteLevel"})", "pre_tokenizer", "has no 'add_prefix_space'"},
    {"pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false})",
     "pre_tokenizer.pattern.Regex", "does not compile"},
    {"pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"\\bx"},"behavior":"Isolated","invert":false})",
     "pre_tokenizer.pattern.Regex", "\\b is not supported"},
    {"pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Sideways","invert":false})",
     "pre_tokenizer.behavior", "'Sideways' is not one of"},
    {"pre_tokenizer", R"({"type":"Metaspace","replacement":"__"})", "pre_tokenizer.replacement",
     "one character"},
    {"pre_tokenizer", R"({"type":"Metaspace","replacement":"_","prepend_scheme":"last"})",
     "pre_tokenizer.prepend_scheme", "not one of"},
    {"post_processor", R"({"type":"BertProcessing"})", "post_processor", "'BertProcessing'"},
    {"post_processor", R"({"type":"TemplateProcessing","single":[],"pair":[],"special_tokens":{}})",
     "post_processor.single", "Sequence A is missing"},
    {"post_processor",
     R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}],"pair":[],"special_tokens":{}})",
     "post_processor.single[0].SpecialToken.id", "not among special_tokens"},
    {"decoder", R"({"type":"WordPiece"})", "decoder", "'WordPiece'"},
    {"decoder", R"({"type":"Strip","content":" ","start":-1,"stop":0})", "decoder.start", "whole number"},
    {"decoder", R"({"type":"Sequence","decoders":{}})", "decoder.decoders", "must be an array"},
});

TEST(TokenizerRefusals, TheUnchangedFileIsAccepted) {
  const auto tokenizer = Tokenizer::parse(file_with("", ""), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocab_size(), 5u);
}

TEST(TokenizerRefusals, NameFilePlaceAndReason) {
  for (const Bad& bad : bad_files) {
    SCOPED_TRACE(std::string(bad.key) + ": " + bad.value);
    const auto tokenizer = Tokenizer::parse(file_with(bad.key, bad.value), "dir/tokenizer.json");
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("dir/tokenizer.json: " + std::string(bad.place) + ": "));
    EXPECT_THAT(tokenizer.error().message, HasSubstr(bad.reason));
  }
}

std::string list_of(const std::string& item, u64 count) {
  std::string out = "[" + item;
  for (u64 i = 1; i < count; ++i) out += "," + item;
  return out + "]";
}

// Item "tokenizers that blow up": the rule is named when the file is read.
TEST(TokenizerRefusals, RulesThatWouldBlowUpATextAreNamed) {
  const std::string long_text(100'000, 'x');
  const std::string replace = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaa"})";
  const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  struct Case {
    const char* key;
    std::string value;
    const char* place;
    const char* reason;
  };
  for (const Case& c : {
           Case{"normalizer", R"({"type":"Prepend","prepend":")" + long_text + "\"}", "normalizer.prepend",
                "puts 100000 bytes into a text; a rule may put at most 1024"},
           {"normalizer", R"({"type":"Replace","pattern":{"String":"a"},"content":")" + long_text + "\"}",
            "normalizer.content", "puts 100000 bytes"},
           {"normalizer", R"({"type":"Sequence","normalizers":)" + list_of(replace, 257) + "}",
            "normalizer.normalizers[256]", "at most 256"},
           {"decoder", R"({"type":"Sequence","decoders":)" + list_of(replace, 2) + "}", "decoder.decoders[1]",
            "81 times as long; the most is 64"},
           {"pre_tokenizer", R"({"type":"Sequence","pretokenizers":)" + list_of(byte_level, 40) + "}",
            "pre_tokenizer.pretokenizers[4]", "more than 3 ByteLevel rules"},
       }) {
    const auto tokenizer = Tokenizer::parse(file_with(c.key, c.value), "t.json");
    ASSERT_FALSE(tokenizer) << c.place;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(tokenizer.error().message,
                AllOf(HasSubstr(std::string("t.json: ") + c.place + ": "), HasSubstr(c.reason)));
  }
}

// Each rule alone is harmless; 12 of them would turn one byte into 9^12 bytes.
TEST(TokenizerRefusals, RulesThatLengthenEachOthersTextAreNamedWhereTheyDo) {
  const std::string replace = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaa"})";
  const auto tokenizer = Tokenizer::parse(
      file_with("normalizer", R"({"type":"Sequence","normalizers":)" + list_of(replace, 12) + "}"), "t.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<u32> ids;
  ASSERT_TRUE((*tokenizer)->encode("b", Special::none, ids));
  const Result<void> done = (*tokenizer)->encode(std::string(1000, 'a'), Special::none, ids);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(done.error().message,
              HasSubstr("normalizer.normalizers[1] makes the text more than 32 times as long"));
}

TEST(TokenizerRefusals, RefuseTextThatIsNotJson) {
  const std::string whole = file_with("", "");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    const auto tokenizer = Tokenizer::parse(whole.substr(0, bytes), "t.json");
    ASSERT_FALSE(tokenizer) << bytes;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("t.json"));
  }
  for (const char* text : {"[]", "1", "\"x\"", "{\"model\": \xff}", "{}"})
    EXPECT_FALSE(Tokenizer::parse(text, "t.json")) << text;
  EXPECT_EQ(Tokenizer::open("no/such/tokenizer.json").error().kind, ErrorKind::bad_input);
}

TEST(TokenizerRefusals, RefuseTextThatIsNotUtf8) {
  const auto tokenizer = Tokenizer::parse(file_with("", ""), "t.json");
  std::vector<u32> ids;
  for (const std::string text : {"ab\xff", "ab\xc3", "\xed\xa0\x80", "\xc0\x80"}) {
    const Result<void> done = (*tokenizer)->encode(text, Special::none, ids);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(done.error().message, HasSubstr("not UTF-8 at byte"));
  }
}

TEST(TokenizerRefusals, RefusePatternsThatMeanSomethingElseInRuby) {
  for (const char* pattern : {R"(\b)",      R"(\G)",      R"(\1)",     R"(\k<a>)",  R"(\X)",     R"(\R)",
                              R"(a{2}+)",   R"(a{1,2}+)", R"(a{2}?)",  R"([a[b]])", R"([a&&b])", R"([\W])",
                              R"([\P{L}])", R"((?<n>a))", R"((?m:a))", R"((?x)a)",  R"(a(?i)b)", R"((*UTF))",
                              R"((?#x))",   R"(\p{}x)",   R"(\pL)",    R"(\u12)",   R"(\x)",     R"([a)",
                              "\\",         R"(\xe9)",    R"([\s-a])", R"([a-\s])", R"([!-&&b])"})
    EXPECT_FALSE(translate_pattern(pattern)) << pattern;
}

TEST(TokenizerRefusals, RefusePatternsWhoseCaseFoldsIntoSeveralCharacters) {
  struct Case {
    const char* pattern;
    const char* reason;
  };
  for (const auto& [pattern, reason] : std::to_array<Case>({
           {"(?i:große)", "'ß' under (?i), where 'ss' would match too, is not supported"},
           {"(?i)[à-ÿﬁ]", "'ﬁ' under (?i), where 'fi' would match too"},
           {R"((?i:[\x{80}-\x{ff}]))", "'ß' under (?i)"},
           {"(?i:a|MASSE)", "'ss' under (?i), where 'ß' would match too"},
           {R"((?i:(?:s)\x73))", "'ss' under (?i)"},
           {"(?i)s{1}s", "'ss' under (?i)"},
           {"(?i)(?:f{01,1}?)i", "'fi' under (?i)"},
           {"(?i:off|on)", "'ff' under (?i), where 'ﬀ' would match too"},
           {"(?i:(?-i:ss)ſt)", "'st' under (?i), where 'ﬅ' would match too"},
           {R"((?i:\p{Lu}))", R"(\p under (?i))"},
           {R"((?i:[^\w]))", R"(\w under (?i))"},
           {R"((?i:[a\S]))", R"(\S in a class under (?i))"},
           {R"((?i:\x{10d50}))", "U+10D50, which is newer than Unicode 14"},
       })) {
    const auto translated = translate_pattern(pattern);
    ASSERT_FALSE(translated) << pattern;
    EXPECT_THAT(translated.error().message, HasSubstr(reason)) << pattern;
  }
}

TEST(TokenizerRefusals, AcceptPatternsWhoseCaseFoldsIntoOneCharacter) {
  for (const char* pattern : {"(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)", "straße", "(?-i:ss)",
                              "(?i:s)ss", "(?i:s|s[s]s.s$s)", R"((?i:[^ß-ÿ]\s\S\d))", "(?i:É|[α-ω]|’S)",
                              "(?i:a(?-i:ss|ß)b)", "[a-c-z]", "[+--]"})
    EXPECT_TRUE(Regex::compile(pattern)) << pattern << ": " << Regex::compile(pattern).error().message;
}

TEST(TokenizerRefusals, RefusePropertiesThatPcreDefinesDifferently) {
  for (const char* pattern :
       {R"(\p{C})", R"(\P{C})", R"(\p{^C})", R"([\p{Cn}])", R"(\p{lu})", R"(\p{Unknown})"})
    EXPECT_FALSE(translate_pattern(pattern)) << pattern;
  for (const char* pattern :
       {R"(\p{Alpha})", R"(\p{Alphabetic})", R"(\p{Emoji})", R"(\p{Word})", R"(\p{Letter})"})
    EXPECT_FALSE(Regex::compile(pattern)) << pattern;
}

TEST(TokenizerRefusals, APatternThatTakesTooLongIsAnError) {
  const std::string splits =
      R"({"type":"Split","pattern":{"Regex":"(?:a|a)*(?:a|a)*(?:a|a)*(?:a|a)*(?:a|a)*[bd]"},"behavior":"Isolated","invert":false})";
  const auto tokenizer = Tokenizer::parse(file_with("pre_tokenizer", splits), "t.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<u32> ids;
  const Result<void> done = (*tokenizer)->encode(std::string(5000, 'a'), Special::none, ids);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("too many steps"));
}

// For every cause of a long word: no pre-tokenizer, or a pre-tokenizer that finds nothing to cut at.
TEST(TokenizerRefusals, AWordThatWouldTakeTooMuchMemoryIsRefused) {
  const std::string text(word_bytes_max + 1, 'a');
  for (const char* splits : {"null", R"({"type":"WhitespaceSplit"})"}) {
    const auto tokenizer = Tokenizer::parse(file_with("pre_tokenizer", splits), "t.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    std::vector<u32> ids;
    const Result<void> done = (*tokenizer)->encode("a " + text + " a", Special::none, ids);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message,
                AllOf(HasSubstr("8 MiB"), HasSubstr("one word"), HasSubstr("cut the text")));
    EXPECT_TRUE((*tokenizer)->encode("a", Special::none, ids));
  }
}

// Chinese text has no spaces, but it has lines.
TEST(TokenizerRefusals, LinesAreWordsWhereNoMergeHasALineFeed) {
  const std::string line(word_bytes_max - 1, 'a'), text = line + '\n' + line;
  const auto ids_of = [&](const char* model) -> Result<std::vector<u32>> {
    TRY_ASSIGN(const auto tokenizer, Tokenizer::parse(file_with("model", model), "t.json"));
    std::vector<u32> ids;
    TRY(tokenizer->encode(text, Special::none, ids));
    return ids;
  };
  const auto ids = ids_of(R"({"type":"BPE","vocab":{"a":0,"aa":1,"\n":2,"b":3},"merges":["a a"]})");
  ASSERT_TRUE(ids) << ids.error().message;
  const size_t of_line = word_bytes_max / 2;  // pairs, and one byte left over
  ASSERT_EQ(ids->size(), 2 * of_line + 1);
  EXPECT_EQ((*ids)[of_line - 1], 0u);
  EXPECT_EQ((*ids)[of_line], 2u);
  EXPECT_EQ((*ids)[of_line + 1], 1u);
  EXPECT_FALSE(ids_of(R"({"type":"BPE","vocab":{"a":0,"b":1,"\n":2,"\na":3},"merges":["\n a"]})"));
}

}  // namespace tidepool::tokenizer_refusals_test
