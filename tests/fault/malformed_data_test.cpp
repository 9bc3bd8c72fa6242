// Data that is damaged, or of another kind than its name says: JSONL, token files, text, chat templates,
// token caches.
#include <fmt/format.h>

#include "base/json/text.h"
#include "base/text/seal.h"
#include "tests/support/file_text.h"
#include "tests/support/json_file.h"
#include "tests/support/malformed.h"

namespace tidepool::malformed_data_test {

using test::BadFile;
using test::BadPlace;
using test::little_endian;

namespace fs = std::filesystem;

const std::string good = "{\"text\": \"hello world, this is text\"}\n";
constexpr const char* lines = "data.jsonl";
const BadFile records[] = {
    {"empty", lines, "", "data.jsonl", "holds no document"},
    {"blank", lines, "\n\n", "data.jsonl", "holds no document"},
    {"half_a_line", lines, good + "{\"text\": \n", "data.jsonl:2", "does not end on this line"},
    {"plain_text", lines, "just text\n", "data.jsonl:1", "not valid JSON at byte 0"},
    {"list", lines, good + "[1]\n", "data.jsonl:2", "must be a JSON object"},
    {"null", lines, good + "null\n", "data.jsonl:2", "must be a JSON object"},
    {"depth", lines, good + "{\"text\":" + std::string(5000, '[') + "\n", "data.jsonl:2",
     "does not end on this line"},
    {"not_utf8", lines, good + "{\"text\": \"\xff\"}\n", "data.jsonl:2", "byte 10"},
    {"latin1", lines, good + "{\"text\": \"caf\xe9\"}\n", "data.jsonl:2", "is not UTF-8 at byte 13"},
    {"utf16", lines, std::string("\xff\xfe{\0\"\0", 6), "data.jsonl", "is UTF-16"},
    {"git_lfs_pointer", lines, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
     "data.jsonl", "is a Git LFS pointer"},
    {"half_a_pair", lines, good + "{\"text\": \"\\ud800\"}\n", "data.jsonl:2", "byte 16"},
    {"unknown_keys", lines, "{\"body\": \"x\"}\n", "data.jsonl:1", "no kind of record"},
    {"another_shape", lines, good + R"({"prompt":"a","completion":"b"})", "data.jsonl:2",
     "must have one shape"},
    {"number_for_text", lines, good + "{\"text\": 3}\n", "data.jsonl:2", "must be text, not a number"},
    {"no_role", lines, R"({"messages":[{"content":"a"}]})", "messages[0]", "has no \"role\""},
    {"no_messages", lines, R"({"messages":[]})", "data.jsonl:1", "\"messages\" is empty"},
    {"messages_of_text", lines, R"({"messages":"a"})", "data.jsonl:1", "must be a list"},
    {"from_nobody", lines, R"({"conversations":[{"from":"alien","value":"x"}]})", "conversations[0].from",
     "'alien'"},
    {"no_value", lines, R"({"conversations":[{"from":"human"}]})", "conversations[0]", "has no \"value\""},
    {"alpaca_number", lines, R"({"instruction":"a","output":1})", "\"output\"", "must be text"},
    {"negative_id", lines, R"({"input_ids":[1,-1]})", "input_ids[1]", "is not a token"},
    {"id_above_the_vocabulary", lines, R"({"input_ids":[1,99999]})", "data.jsonl:1", "vocabulary has 300"},
    {"few_labels", lines, R"({"input_ids":[1,2],"labels":[1]})", "data.jsonl:1", "1 labels for 2 input_ids"},
    {"other_labels", lines, R"({"input_ids":[1,2],"labels":[1,3]})", "labels[1]", "must be input_ids[1]"},
    {"nothing_to_learn", lines, R"({"prompt":"a","completion":""})", "data.jsonl",
     "no document has anything to learn (1"},
    {"gzip_damaged", "data.jsonl.gz", "\x1f\x8b\x08" + std::string(30, 'x'), "byte 4",
     "gzip data is damaged"},
    {"gzip_cut", "data.jsonl.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\x56", 12), "byte",
     "ends in the middle"},
    {"zstd_damaged", "data.jsonl.zst", "\x28\xb5\x2f\xfd" + std::string(30, 'x'), "byte 0",
     "zstd data is damaged"},
};

std::string npy(const std::string& dtype, const std::string& shape, const std::string& data,
                char version = 1) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", dtype, shape);
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  return "\x93NUMPY" + std::string{version, '\0'} + little_endian(header.size(), 2) + header + data;
}
std::string llmc(u32 magic, u32 version, u32 tokens) {
  return little_endian(magic, 4) + little_endian(version, 4) + little_endian(tokens, 4) +
         std::string(253 * 4, '\0') + "1234";
}

const BadFile token_files[] = {
    {"npy_empty", "t.npy", "", "t.npy", "is not a .npy file"},
    {"npy_short", "t.npy", "\x93NUM", "t.npy", "is not a .npy file"},
    {"npy_magic", "t.npy", std::string(100, 'x'), "t.npy", "is not a .npy file"},
    {"npy_version", "t.npy", npy("<u2", "(1,)", "11", 9), "version", "is not a .npy file"},
    {"npy_header", "t.npy", std::string("\x93NUMPY\1\0\xff\xff{}123456", 18), "65535 bytes", "does not fit"},
    {"npy_floats", "t.npy", npy("<f4", "(1,)", "1111"), "elements", "'<f4'"},
    {"npy_big_endian", "t.npy", npy(">u2", "(1,)", "11"), "elements", "'>u2'"},
    {"npy_matrix", "t.npy", npy("<u2", "(2, 2)", "12345678"), "shape", "not one dimension"},
    {"npy_cut", "t.npy", npy("<u2", "(100,)", "11"), "100 tokens", "cut off"},
    {"npy_longer", "t.npy", npy("<u2", "(1,)", "1111"), "4 bytes", "cut off or damaged"},
    {"npy_id", "t.npy", npy("<u2", "(40,)", test::ids(280, 40)), "token 20 at byte offset 168",
     "vocab_size is 300"},
    {"nanogpt_odd", "t.bin", "123", "3 bytes", "not a whole number of uint16"},
    {"nanogpt_id", "t.bin", test::ids(280, 50), "token 20 at byte offset 40", "vocab_size is 300"},
    {"llmc_short", "t.bin", little_endian(20240520, 4) + "1", "5 bytes", "too few for the 1024-byte header"},
    {"llmc_version", "t.bin", llmc(20240520, 7, 2), "version 7", "not an llm.c token file"},
    {"llmc_count", "t.bin", llmc(20240520, 1, 9), "9 tokens", "cut off or damaged"},
    {"text_not_utf8", "t.txt", std::string(100, 'a') + "\xff" + std::string(100, 'a'), "byte offset 100",
     "not UTF-8"},
    {"text_cut", "t.txt", std::string(100, 'a') + "\xe4\xb8", "byte offset 100", "ends in the middle"},
    {"text_empty", "t.txt", "", "t.txt", "is empty"},
};

// Valid files without a sequence to train on: they can be used for evaluation.
const BadFile short_files[] = {
    {"npy_few", "t.npy", npy("<u2", "(2,)", std::string(4, '\0')), "2 tokens", "too few for one sequence"},
};

class MalformedData : public ::testing::TestWithParam<BadFile> {};

TEST_P(MalformedData, IsRefused) {
  const BadPlace place;
  place.write(GetParam().file, GetParam().content);
  place.expect_refusal(GetParam(), place.train_on(GetParam().file));
}

// Held-out data is checked as carefully.
class MalformedHeldOutData : public MalformedData {};

TEST_P(MalformedHeldOutData, IsRefused) {
  const BadPlace place;
  const std::string train =
      std::string(GetParam().file).find("json") == std::string::npos ? "good.bin" : "good.jsonl";
  place.write("good.jsonl", good + good);
  place.write(GetParam().file, GetParam().content);
  place.expect_refusal(GetParam(),
                       place.train_on(train, fmt::format(", validation: {}", place / GetParam().file)));
}

constexpr const char* chat = "t.jinja";
const BadFile templates[] = {
    {"template_not_utf8", chat, "\xff", "byte 0", "not UTF-8"},
    {"template_block_open", chat, "\n{% for m in messages %}", "t.jinja:2", "{% endfor %} is missing"},
    {"template_tag_open", chat, "{{ a", "t.jinja:1", "never closed"},
    {"template_end_of_nothing", chat, "{% endfor %}", "t.jinja:1", "'endfor'"},
    {"template_import", chat, "{% import \"x\" %}", "t.jinja:1", "'import'"},
    {"template_filter", chat, "{{ messages|nosuch }}", "t.jinja:1", "'nosuch'"},
    {"template_undefined", chat, "{{ a.b.c }}", "t.jinja:1", "'a' is undefined"},
    {"template_refuses", chat, "{{ raise_exception('no') }}", "t.jinja:1", "refuses this: no"},
    {"template_division", chat, "{{ 1 // 0 }}", "t.jinja:1", "division by zero"},
};

class MalformedTemplate : public ::testing::TestWithParam<BadFile> {};

TEST_P(MalformedTemplate, IsRefused) {
  const BadPlace place;
  place.write(chat, GetParam().content);
  place.write("d.jsonl",
              R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})");
  place.expect_refusal(GetParam(),
                       place.train_on("d.jsonl", fmt::format(", chat_template: {}", place / chat)));
}

constexpr const char* about = "about.json";
const BadFile caches[] = {
    {"cache_empty", about, "", "byte 0", "to have it made again"},
    {"cache_half", about, "{", "byte 1", "to have it made again"},
    {"cache_list", about, "[]", "about.json", "is not a JSON object"},
    {"cache_version", about, sealed("{\n  \"version\": 9,\n"), "version 9", "this program reads 2"},
    {"cache_of_other_files", about, sealed("{\n  \"version\": 2,\n  \"key\": \"x\",\n"), "key x",
     "made from other files"},
    {"cache_counts", about, R"("documents": 99999)", "about.json", "counts are impossible"},
    {"cache_tokens", "tokens.bin", "1234", "4 bytes", "about.json says"},
    {"cache_documents", "documents.bin", "1234", "4 bytes", "about.json says"},
    {"cache_unsealed", about, R"({"version":2})", about, "does not match its own checksum"},
    {"cache_tokens_damaged", "tokens.bin", std::string(4096, '\xff'), "block 0", "to have it made again"},
    {"cache_documents_damaged", "documents.bin", std::string(4096, '\xff'), "block 0",
     "does not match its checksum"},
};

class MalformedCache : public ::testing::TestWithParam<BadFile> {};

TEST_P(MalformedCache, IsRefused) {
  const BadPlace place;
  const BadFile& bad = GetParam();
  place.write("d.jsonl", good);
  std::vector<std::string> words = place.train_on("d.jsonl");
  ASSERT_EQ(test::Child(words, place / "log").wait(), 0) << test::file_text(place / "log");
  fs::remove_all(place / "run");
  const std::string key = fs::directory_iterator(place / "cache")->path().filename().string();
  std::string content = bad.content;
  if (content.starts_with("\"documents\"")) {
    boost::json::value whole = json_of_file(place / ("cache/" + key + "/about.json"));
    whole.as_object()["documents"] = 99999;
    whole.as_object().erase("xxh3_of_the_lines_above");
    content = sealed_object(json_text(whole, JsonStyle::pretty));
  }
  place.write("cache/" + key + "/" + bad.file, content);
  place.expect_refusal(bad, words);
}

const auto named = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Records, MalformedData, ::testing::ValuesIn(records), named);
INSTANTIATE_TEST_SUITE_P(Tokens, MalformedData, ::testing::ValuesIn(token_files), named);
INSTANTIATE_TEST_SUITE_P(ShortTokens, MalformedData, ::testing::ValuesIn(short_files), named);
INSTANTIATE_TEST_SUITE_P(Records, MalformedHeldOutData, ::testing::ValuesIn(records), named);
INSTANTIATE_TEST_SUITE_P(Tokens, MalformedHeldOutData, ::testing::ValuesIn(token_files), named);
INSTANTIATE_TEST_SUITE_P(Templates, MalformedTemplate, ::testing::ValuesIn(templates), named);
INSTANTIATE_TEST_SUITE_P(Caches, MalformedCache, ::testing::ValuesIn(caches), named);

}  // namespace tidepool::malformed_data_test
