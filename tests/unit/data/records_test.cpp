#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "data/records/record.h"
#include "data/files/line_reader.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::records_test {

using testing::HasSubstr;

std::string fault_of(std::string_view line) {
  const auto shape = recognise_record(line, "d.jsonl:7");
  if (!shape) return shape.error().message;
  const auto record = parse_record(line, *shape, "d.jsonl:7");
  if (record) return "a record";
  EXPECT_EQ(record.error().kind, ErrorKind::bad_input);
  return record.error().message;
}

TEST(DataRecords, MalformedLinesAreRefusedWithPlaceAndReason) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "not valid JSON"},
      {"{\"text\": \"a\"", "not valid JSON"},
      {"{\"text\": \"a\"} x", "not valid JSON"},
      {"{'text': 'a'}", "not valid JSON"},
      {"{\"text\": \"\xff\"}", "is not UTF-8 at byte 10 of the line (0xff)"},
      {"{\"text\": \"\\ud800\"}", "\\ud800 is half of a character without its other half"},
      {"{\"text\": \"\\ud83d\\ude00 \\\\ud83d \\ude00\"}", "\\ude00 is half of a character"},
      {"[1, 2]",
       "every line must be a JSON object, but this is a list; convert a file that is one list to lines"},
      {"[", "one JSON list over several lines"},
      {"\"text\"", "must be a JSON object, but this is text"},
      {"{}", "fit no kind of record"},
      {"{\"txt\": \"a\"}", "did you mean 'text'?"},
      {"{\"text\": 1}", "\"text\" must be text, not a number"},
      {"{\"text\": \"a\", \"messages\": []}", "may be text or messages; set data.records"},
      {"{\"messages\": {}}", "\"messages\" must be a list, not an object"},
      {"{\"messages\": []}", "\"messages\" is empty"},
      {"{\"messages\": [1]}", "messages[0] must be an object, not a number"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "messages[0] has no \"role\""},
      {"{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}", "messages[0].role must be text"},
      {"{\"messages\": [{\"role\": \"assistant\", \"reasoning_content\": null}]}",
       "messages[0] has neither \"content\""},
      {"{\"messages\": [{\"role\": \"user\"}]}", "messages[0] has neither \"content\" nor \"tool_calls\""},
      {"{\"messages\": [{\"role\": \"user\", \"content\": 3}]}",
       "messages[0].content must be text, or a list of parts"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": 1}",
       "\"tools\" must be a list"},
      {"{\"conversations\": [{\"value\": \"a\"}]}", "conversations[0] has no \"from\""},
      {"{\"conversations\": [{\"from\": \"bing\", \"value\": \"a\"}]}",
       "conversations[0].from is 'bing'; known are human"},
      {"{\"conversations\": [{\"role\": \"user\", \"value\": \"a\"}]}",
       "conversations[0] has neither \"content\" nor \"tool_calls\""},
      {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0.5}]}",
       "messages[0].weight must be 1, or 0"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"train\": true}]}",
       "messages[0].train asks to learn it, but answers alone are learned"},
      {"{\"instruction\": \"a\"}", "there is no \"output\""},
      {"{\"instruction\": \"a\", \"input\": 1, \"output\": \"b\"}", "\"input\" must be text"},
      {"{\"completion\": \"a\"}", "there is no \"prompt\""},
      {"{\"input_ids\": 3}", "\"input_ids\" must be a list"},
      {"{\"input_ids\": [1, -1]}", "input_ids[1] is -1, which is not a token id"},
      {"{\"input_ids\": [1.5]}", "input_ids[0] must be an integer"},
      {"{\"input_ids\": [1, 2], \"labels\": [1]}", "1 labels for 2 input_ids"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, 3]}",
       "labels[1] is 3, but must be input_ids[1] = 2, or -100"},
  };
  for (const auto& [line, reason] : cases) {
    EXPECT_THAT(fault_of(line), HasSubstr(reason)) << line;
    EXPECT_THAT(fault_of(line), HasSubstr("d.jsonl:7: ")) << line;
  }
}

TEST(DataRecords, RecordsOfAnotherShapeAreRefused) {
  const auto record = parse_record("{\"messages\": []}", RecordShape::text, "d.jsonl:9");
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().message,
            "d.jsonl:9: this is not a text record: there is no \"text\", but \"messages\"; all records of a "
            "source must have one shape");
}

TEST(DataRecords, EveryShapeIsRead) {
  const auto chat = parse_record(
      R"({"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}], "system": "s"})",
      RecordShape::sharegpt, "d");
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(jinja::to_text(jinja::Value(std::get<ChatRecord>(*chat).messages)),
            "[{'role': 'system', 'content': 's'}, {'role': 'user', 'content': 'hi'}, {'role': 'assistant', "
            "'content': 'ho'}]");
  const auto messages = parse_record(
      R"({"system": "s", "conversations": [{"role": "user", "content": "hi"}], "tools": [{"name": "f"}]})",
      RecordShape::sharegpt, "d");
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ(jinja::to_text(jinja::Value(std::get<ChatRecord>(*messages).messages)),
            "[{'role': 'system', 'content': 's'}, {'role': 'user', 'content': 'hi'}]");
  EXPECT_EQ(jinja::to_text(std::get<ChatRecord>(*messages).tools), "[{'name': 'f'}]");
  EXPECT_TRUE(std::get<ChatRecord>(*messages).not_learned.empty());
  for (
      const char* line :
      {R"({"conversations": [{"from": "gpt", "value": "a", "weight": 1}, {"from": "gpt", "value": "a", "weight": 0}]})",
       R"({"conversations": [{"role": "user", "content": "a", "weight": 0.5}, {"role": "assistant", "content": "a", "weight": false}]})"}) {
    const auto weighted = parse_record(line, RecordShape::sharegpt, "d");
    ASSERT_TRUE(weighted) << weighted.error().message;
    EXPECT_EQ(std::get<ChatRecord>(*weighted).not_learned, std::vector<size_t>{1});
  }
  const auto nulls = parse_record(
      R"({"messages": [{"role": "assistant", "content": null, "name": null, "tool_calls": [{"id": 1}]}]})",
      RecordShape::messages, "d");
  ASSERT_TRUE(nulls) << nulls.error().message;
  EXPECT_EQ(jinja::to_text(jinja::Value(std::get<ChatRecord>(*nulls).messages)),
            "[{'role': 'assistant', 'tool_calls': [{'id': 1}]}]");
  const auto neither =
      parse_record(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": null}]})",
                   RecordShape::messages, "d");
  ASSERT_FALSE(neither);
  EXPECT_EQ(neither.error().message, "d: messages[0] has neither \"content\" nor \"tool_calls\"");
  const auto ids =
      parse_record(R"({"input_ids": [5, 6, 7], "labels": [-100, 6, -100], "attention_mask": [1, 1, 1]})",
                   RecordShape::tokens, "d");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(std::get<TokensRecord>(*ids).learned, (std::vector<bool>{false, true, false}));
}

// LLaMA-Factory's form of conversations with tools: calls and tools are JSON text, and functions stand bare.
TEST(DataRecords, ShareGptsCallsAndToolsAreReadFromJsonText) {
  const auto record = parse_record(
      R"({"conversations": [{"from": "Human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 12345678901234567890}}"}, {"from": "observation", "value": "7"}, {"from": "GPT", "value": "b"}], "tools": "[{\"name\": \"f\", \"parameters\": {}}]"})",
      RecordShape::sharegpt, "d");
  ASSERT_TRUE(record) << record.error().message;
  const ChatRecord& chat = std::get<ChatRecord>(*record);
  EXPECT_EQ(
      jinja::to_text(jinja::Value(chat.messages)),
      "[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': '', 'tool_calls': [{'type': "
      "'function', 'function': {'name': 'f', 'arguments': {'x': 12345678901234567890}}}]}, {'role': 'tool', "
      "'content': '7'}, {'role': 'assistant', 'content': 'b'}]");
  EXPECT_EQ(jinja::to_text(chat.tools),
            "[{'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]");
  EXPECT_THAT(
      fault_of(R"({"conversations": [{"from": "function_call", "value": "f"}]})"),
      HasSubstr("conversations[0].value must be JSON text of a call, {\"name\": ..., \"arguments\": {...}}"));
  EXPECT_THAT(fault_of(R"({"conversations": [{"from": "gpt", "value": "a"}], "tools": "f"})"),
              HasSubstr("\"tools\" is text that is not JSON"));
}

TEST(DataRecords, ToolsOfMessagesMayBeJsonText) {
  for (const char* tools : {R"([{"name": "f"}])", R"("[{\"name\": \"f\"}]")"}) {
    const auto record = parse_record(
        fmt::format(R"({{"messages": [{{"role": "user", "content": "a"}}], "tools": {}}})", tools),
        RecordShape::messages, "d");
    ASSERT_TRUE(record) << record.error().message;
    EXPECT_EQ(jinja::to_text(std::get<ChatRecord>(*record).tools), "[{'name': 'f'}]");
  }
  const auto none = parse_record(R"({"messages": [{"role": "user", "content": "a"}], "tools": ""})",
                                 RecordShape::messages, "d");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(std::get<ChatRecord>(*none).tools.is_undefined());
}

// Templates know "assistant": nothing of an "Assistant" would be learned.
TEST(DataRecords, AMessageMayHaveReasoningAlone) {
  const auto read = parse_record(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_content": "b"}]})",
      RecordShape::messages, "d");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::get<ChatRecord>(*read).messages[1].dict()->find("content"), nullptr);
}

TEST(DataRecords, RolesInCapitalsAreThoseInSmallLetters) {
  const auto record = parse_record(
      R"({"messages": [{"role": "User", "content": "a"}, {"role": "ASSISTANT", "content": "b"}, {"role": "Ipython", "content": "c"}]})",
      RecordShape::messages, "d");
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(jinja::to_text(jinja::Value(std::get<ChatRecord>(*record).messages)),
            "[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}, {'role': 'Ipython', "
            "'content': 'c'}]");
}

class DataLines : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  static Result<std::vector<std::string>> lines_of(const std::string& path) {
    TRY_ASSIGN(LineReader reader, LineReader::open(path));
    std::vector<std::string> out;
    while (true) {
      TRY_ASSIGN(std::optional<std::string> line, reader.next());
      if (!line) return out;
      out.push_back(*line);
    }
  }
  static std::string gzip(const std::string& text) {
    std::string out(text.size() + 1000, '\0');
    z_stream z{};
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    deflate(&z, Z_FINISH);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
  }
  static std::string zstd(const std::string& text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
  }
  test::ScratchDir dir_;
};

TEST_F(DataLines, ComeOutOfPlainGzipAndZstdFiles) {
  std::string text =
      "\xef\xbb\xbf"
      "first\r\n\nthird";
  for (int i = 0; i < 100'000; ++i) text += "\nline " + std::to_string(i * 7919);
  const auto plain = lines_of(write("a.txt", text));
  ASSERT_TRUE(plain) << plain.error().message;
  ASSERT_EQ(plain->size(), 100'003u);
  EXPECT_EQ((*plain)[0], "first");
  EXPECT_EQ((*plain)[1], "");
  EXPECT_EQ((*plain)[2], "third");
  const std::string head = text.substr(0, 1000), tail = text.substr(1000);
  const auto gz = lines_of(write("a.gz", gzip(head) + gzip(tail) + std::string(700, '\0')));
  ASSERT_TRUE(gz) << gz.error().message;
  EXPECT_EQ(*gz, *plain);
  const auto zst = lines_of(write("a.zst", zstd(head) + zstd(tail)));
  ASSERT_TRUE(zst) << zst.error().message;
  EXPECT_EQ(*zst, *plain);
  const auto nothing = lines_of(write("empty", ""));
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->empty());
}

TEST_F(DataLines, DamagedFilesAreRefused) {
  const std::string text(50'000, 'x');
  for (const auto& [name, bytes] :
       {std::pair{"cut.gz", gzip(text).substr(0, 60)}, std::pair{"cut.zst", zstd(text).substr(0, 12)}}) {
    const auto lines = lines_of(write(name, bytes));
    ASSERT_FALSE(lines);
    EXPECT_EQ(lines.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(lines.error().message, HasSubstr("ends in the middle; the file was cut off")) << name;
  }
  for (const auto& [name, bytes] : {std::pair{"bad.gz", gzip(text)}, std::pair{"bad.zst", zstd(text)}}) {
    std::string spoilt = bytes;
    for (size_t i = spoilt.size() / 2; i < spoilt.size(); ++i) spoilt[i] = static_cast<char>(~spoilt[i]);
    const auto lines = lines_of(write(name, spoilt));
    ASSERT_FALSE(lines) << name;
    EXPECT_THAT(lines.error().message, HasSubstr(name)) << name;
  }
  const auto junk = lines_of(write("junk.gz", gzip("a\n") + "no gzip"));
  ASSERT_FALSE(junk);
  EXPECT_THAT(junk.error().message, HasSubstr("damaged"));
}

}  // namespace tidepool::records_test
