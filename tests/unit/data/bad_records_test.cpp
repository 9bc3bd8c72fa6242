// Records that cannot be learned from: refused with their encoding named, or left out and counted if the
// config says so. Records that only look bad, such as large integers, are data.
#include <gmock/gmock.h>

#include <algorithm>

#include "data/records/record.h"
#include "huggingface/jinja/json.h"
#include "tests/support/document_files.h"

namespace tidepool::bad_records_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class BadRecordsTest : public test::DocumentsFixture {
 protected:
  static DataConfig skipping(const std::string& path) { return {.train = {path}, .on_bad_record = "skip"}; }
};

std::string text_line(const std::string& text) { return "{\"text\": \"" + text + "\"}\n"; }

TEST_F(BadRecordsTest, OneBadRecordEndsTheRunUnlessItIsSkipped) {
  const std::string good = text_line("first of them") + text_line("second of them") + text_line("third");
  const std::string bad = "{\"text\": 5}\n" + text_line("first of them") + "{\"text\": \"half\n" +
                          text_line("second of them") + "\n" + text_line("caf\xe9") + "[1]\n" +
                          text_line("third");
  const std::string mixed = write("mixed.jsonl", bad), clean = write("clean.jsonl", good);
  EXPECT_THAT(fault({.train = {mixed}}), HasSubstr("mixed.jsonl:1: \"text\" must be text"));
  const auto skipped = opened(skipping(mixed)), without = opened({.train = {clean}});
  ASSERT_TRUE(skipped && without);
  ASSERT_EQ(skipped->train_sequences(), without->train_sequences());
  for (u64 i = 0; i < without->train_sequences(); ++i)
    EXPECT_EQ(train_row(*skipped, i), train_row(*without, i)) << i;
  const std::vector<std::string> notes = skipped->notes();
  ASSERT_GE(notes.size(), 5u);
  EXPECT_EQ(notes[1], "data: 4 bad records are left out (data.on_bad_record: skip), such as");
  EXPECT_THAT(notes[2], HasSubstr("mixed.jsonl:1: \"text\" must be text, not a number"));
  EXPECT_THAT(notes[3], HasSubstr("mixed.jsonl:3: not valid JSON"));
  EXPECT_THAT(notes[4],
              HasSubstr("mixed.jsonl:6: is not UTF-8 at byte 13 of the line (0xe9), perhaps Latin-1"));
}

// Every run that finds the cache repeats the message, and caches of the two settings are never mixed up.
TEST_F(BadRecordsTest, SkippedRecordsFollowFromFilesAndConfigAlone) {
  const std::string path =
      write("d.jsonl", text_line("good enough") + "nonsense\n" + text_line("good again"));
  const auto first = opened(skipping(path)), again = opened(skipping(path));
  ASSERT_TRUE(first && again);
  EXPECT_THAT(again->notes()[0], HasSubstr("found in"));
  EXPECT_EQ(again->notes()[1], "data: 1 bad record is left out (data.on_bad_record: skip)");
  std::vector<std::string> said = first->notes(), said_again = again->notes();
  said.erase(said.begin());
  said_again.erase(said_again.begin());
  EXPECT_EQ(said, said_again);
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
  EXPECT_THAT(fault({.train = {path}}), HasSubstr("d.jsonl:2: not valid JSON"));
  EXPECT_EQ(caches(), 1u);
}

TEST_F(BadRecordsTest, TheFirstGoodRecordDeterminesTheKindOfAll) {
  const std::string path = write(
      "d.jsonl", "{\"body\": \"?\"}\n{\"prompt\": \"ab\", \"completion\": \"cd\"}\n" + text_line("no shape"));
  const auto data = opened(skipping(path));
  ASSERT_TRUE(data);
  EXPECT_THAT(data->notes(), ::testing::Contains(HasSubstr("d.jsonl:1: its keys (body)")));
  EXPECT_THAT(data->notes(), ::testing::Contains(HasSubstr("d.jsonl:3: this is not a completion record")));
}

TEST_F(BadRecordsTest, OnlyBadRecordsAreAnError) {
  const std::string path = write("d.jsonl", "nonsense\n{\"text\": 1}\n");
  EXPECT_THAT(fault(skipping(path)),
              AllOf(HasSubstr("left out all of its records"), HasSubstr("the first of 2 left out"),
                    HasSubstr("d.jsonl:1: not valid JSON")));
  EXPECT_EQ(caches_or_none(), 0u);
}

// A record that a template refuses, or with an id that is no token, is a bad record too.
TEST_F(BadRecordsTest, RecordsRefusedByTemplateOrVocabularyAreSkipped) {
  const std::string chats =
      write("c.jsonl",
            R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})"
            "\n"
            R"({"messages": [{"role": "judge", "content": "hi"}, {"role": "assistant", "content": "no"}]})");
  DataConfig config = skipping(chats);
  config.chat_template =
      write("t.jinja",
            "{% for m in messages %}{% if m.role == 'judge' %}{{ raise_exception('no judges') }}{% endif %}"
            "[{{ m.role }}]{{ m.content }}.{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}");
  const auto data = opened(config);
  ASSERT_TRUE(data);
  EXPECT_THAT(data->notes(), ::testing::Contains(AllOf(HasSubstr("c.jsonl:2"), HasSubstr("no judges"))));
  const auto ids = opened(skipping(write("i.jsonl", "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 999]}\n")));
  ASSERT_TRUE(ids);
  EXPECT_THAT(ids->notes(), ::testing::Contains(HasSubstr("the model's vocabulary has 256")));
}

TEST_F(BadRecordsTest, JsonlInAnotherEncodingIsNamedAsSuch) {
  EXPECT_THAT(fault({.train = {write("l.jsonl", text_line("ascii") + text_line("caf\xe9"))}}),
              AllOf(HasSubstr("l.jsonl:2: is not UTF-8 at byte 13"), HasSubstr("iconv -f LATIN1 -t UTF-8"),
                    Not(HasSubstr("JSON"))));
  const std::string line = text_line("abc");
  std::string little = "\xff\xfe", big = "\xfe\xff", bare;
  for (const char c : line) {
    little += {c, '\0'};
    big += {'\0', c};
    bare += {c, '\0'};
  }
  for (const std::string& text : {little, big, bare}) {
    const std::string path = write("u.jsonl", text);
    for (const DataConfig& config : {DataConfig{.train = {path}}, skipping(path)})
      EXPECT_THAT(fault(config), AllOf(HasSubstr("u.jsonl: is UTF-16"), HasSubstr("iconv -f UTF-16")));
  }
}

TEST_F(BadRecordsTest, LargeIntegersAreDataAsTheyAreWritten) {
  constexpr std::string_view line =
      R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",)"
      R"( "arguments": {"u64": 18446744073709551615, "long": -123456789012345678901234567890, "small": 9007199254740993,)"
      R"( "real": 1e30, "edge": [-9223372036854775808, 9223372036854775808]}}}]}], "tools": [{"limit": 36893488147419103232}]})";
  const auto record = parse_record(line, RecordShape::messages, "d.jsonl:1");
  ASSERT_TRUE(record) << record.error().message;
  const ChatRecord& chat = std::get<ChatRecord>(*record);
  const jinja::Value& call = chat.messages[0].dict()->find("tool_calls")->list()->front();
  const jinja::Value& arguments = *call.dict()->find("function")->dict()->find("arguments");
  constexpr const char* as_written =
      R"({"u64": 18446744073709551615, "long": -123456789012345678901234567890, "small": 9007199254740993,)"
      R"( "real": 1e+30, "edge": [-9223372036854775808, 9223372036854775808]})";
  EXPECT_EQ(jinja::to_json(arguments, {}).value(), as_written);
  EXPECT_EQ(jinja::to_text(*arguments.dict()->find("u64")), "18446744073709551615");
  EXPECT_EQ(jinja::type_name(*arguments.dict()->find("long")), "int");
  EXPECT_EQ(jinja::to_json(chat.tools, {}).value(), R"([{"limit": 36893488147419103232}])");
  // In other places such integers are ignored, or are no tokens.
  EXPECT_TRUE(parse_record(R"({"text": "a", "id": 99999999999999999999})", RecordShape::text, "d"));
  EXPECT_FALSE(parse_record(R"({"input_ids": [99999999999999999999]})", RecordShape::tokens, "d"));
  const std::string endless(5000, '7');
  EXPECT_THAT(
      parse_record("{\"text\": \"a\", \"id\": " + endless + "}", RecordShape::text, "d").error().message,
      HasSubstr("has more than 4300 digits"));
}

}  // namespace tidepool::bad_records_test
