// Tests turning text files into token files.
#include "data/tokenize/tokenize.h"

#include <gmock/gmock.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>

#include "cli/cli.h"
#include "data/files/token_file.h"
#include "tests/support/places.h"

namespace tidepool::tokenize_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string styles = source_file("tests/golden/tokenizers/");

class TokenizeFiles : public ::testing::Test {
 protected:
  TokenizeFiles() { fs::create_directories(folder_); }
  ~TokenizeFiles() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // Runs `tidepool tokenize WORDS`; its output is in out_ and err_.
  // RETURNS: the exit code.
  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "tokenize");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_cli(words);
    std::fflush(stdout);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  std::vector<u32> tokens_of(const std::string& file, u32 vocab_size) const {
    const TokenFile tokens = TokenFile::open(file, DataFormat::llmc).value();
    std::vector<i32> ids(tokens.tokens());
    EXPECT_TRUE(tokens.read(0, ids, vocab_size));
    return {ids.begin(), ids.end()};
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("tokenize_test." + std::to_string(::getpid()) + "." +
                                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::string out_, err_;
};

// Text for many blocks, with lines in several scripts.
std::string long_text() {
  std::string text;
  for (u32 i = 0; text.size() < 3 * mib / 2; ++i) {
    text += "line " + std::to_string(i * 7919u % 10007u) + ": the quick brown fox's tail\n";
    if (i % 3 == 0) text += "\u00e4\u00f6\u00fc \u4e2d\u6587 \u043f\u0440\u0438\u0432\u0435\u0442   x  \n\n";
  }
  return text;
}

TEST_F(TokenizeFiles, AFileInPartsGivesTheSameIdsOnAnyNumberOfThreads) {
  const std::string text = long_text(), file = write("a.txt", text);
  for (const char* style : {"gpt2", "qwen", "llama2"}) {
    const auto tokenizer = Tokenizer::open(styles + style + ".json").value();
    std::vector<u32> whole;
    ASSERT_TRUE(tokenizer->encode(text, Special::added, whole));
    for (const char* threads : {"1", "3"}) {
      ASSERT_EQ(run({styles + style + ".json", file, "--output=" + path("t.bin"), "--overwrite", "--threads",
                     threads}),
                0)
          << err_;
      EXPECT_EQ(tokens_of(path("t.bin"), tokenizer->vocab_size()), whole) << style;
      EXPECT_THAT(out_, HasSubstr("Documents        1\n"));
    }
  }
  EXPECT_FALSE(fs::exists(path("t.bin.partial")));
}

TEST_F(TokenizeFiles, LinesAreDocuments) {
  const std::string file = write("a.txt", "one two\r\n\nthree\n  four"), other = write("b.txt", "five\n");
  ASSERT_EQ(run({styles + "llama3.json", file, other, "--documents=line", "--end=<|eot_id|>",
                 "--output=" + path("t.bin")}),
            0)
      << err_;
  const auto tokenizer = Tokenizer::open(styles + "llama3.json").value();
  std::vector<u32> wanted;
  for (const char* line : {"one two", "three", "  four", "five"}) {
    ASSERT_TRUE(tokenizer->encode(line, Special::added, wanted));
    wanted.push_back(*tokenizer->id_of("<|eot_id|>"));
  }
  EXPECT_EQ(tokens_of(path("t.bin"), tokenizer->vocab_size()), wanted);
  EXPECT_THAT(out_, HasSubstr("Documents        4\n"));
}

TEST_F(TokenizeFiles, ShowPrintsTokensAndWritesNothing) {
  ASSERT_EQ(run({styles + "llama2.json", write("a.txt", "the plan\n"), "--show=1"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"<s>\" 1"));
  EXPECT_THAT(out_, HasSubstr("\u2581the"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(TokenizeFiles, OnlyAPlainFileThatIsNotReadIsOverwritten) {
  const std::string file = write("a.txt", "the plan\n");
  fs::create_symlink(file, path("link"));
  fs::create_hard_link(file, path("same"));
  for (const std::string& output : {file, path("link"), path("same"), std::string("/dev/full")}) {
    EXPECT_EQ(run({styles + "gpt2.json", file, "--overwrite", "--output=" + output}), 2) << output;
    EXPECT_THAT(err_, HasSubstr("--output " + output));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(TokenizeFiles, AFailureLeavesNothing) {
  const std::string bad = write("bad.txt", "fine\nbad \xff\n");
  EXPECT_EQ(run({styles + "gpt2.json", bad, "--documents=line", "--output=" + path("t.bin")}), 4);
  EXPECT_THAT(err_, HasSubstr("bad.txt:2: "));
  EXPECT_FALSE(fs::exists(path("t.bin")));
  EXPECT_FALSE(fs::exists(path("t.bin.partial")));
  EXPECT_EQ(run({styles + "gpt2.json", path("none.txt"), "--output=" + path("t.bin")}), 4);
  EXPECT_EQ(run({write("t.json", "{}"), bad, "--output=" + path("t.bin")}), 4);
  EXPECT_EQ(run({styles + "gpt2.json", bad}), 2);
  EXPECT_EQ(run({styles + "gpt2.json", bad, "--output=" + bad}), 2);  // exists already
  EXPECT_EQ(run({styles + "gpt2.json", bad, "--end=nonsense", "--output=" + path("t.bin")}), 2);
  EXPECT_THAT(err_, HasSubstr("no such token"));
  EXPECT_EQ(run({styles + "gpt2.json", bad, "--output=" + path("no/such/t.bin")}), 6);
}

TEST_F(TokenizeFiles, RecordsAreRefusedAndPackedTextIsRead) {
  const std::string jsonl = write("x.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_EQ(run({styles + "gpt2.json", jsonl, "--output=" + path("t.bin")}), 2);
  EXPECT_THAT(err_, HasSubstr("tidepool tokenize CONFIG.yaml"));
  const std::string text = "one two\nthree\n";
  std::string packed(200, '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  for (const char* documents : {"--documents=file", "--documents=line"}) {
    ASSERT_EQ(run({styles + "gpt2.json", write("a.txt", text), documents, "--output=" + path("t.bin")}), 0)
        << err_;
    ASSERT_EQ(run({styles + "gpt2.json", write("a.zst", packed), documents, "--output=" + path("u.bin")}), 0)
        << err_;
    EXPECT_EQ(tokens_of(path("u.bin"), 1 << 20), tokens_of(path("t.bin"), 1 << 20));
    fs::remove(path("t.bin"));
    fs::remove(path("u.bin"));
  }
}

TEST_F(TokenizeFiles, RefusesAConfigWhoseTextIsBytes) {
  const std::string config =
      write("c.yaml", "data: {train: " + write("a.txt", "one two\nthree\n") +
                          "}\nmemory: {device: 1MiB, host: 1MiB}\noutput: {dir: " + path("run") + "}\n");
  for (const std::vector<std::string>& words :
       {std::vector{config}, std::vector{config, std::string("--show=1")}}) {
    EXPECT_EQ(run(words), 4);
    EXPECT_THAT(err_, HasSubstr("to tokenize text, name a tokenizer.json with data.tokenizer"));
  }
}

TEST_F(TokenizeFiles, ShowRefusesAConfigWithoutDocuments) {
  const std::string config =
      write("c.yaml", "data: {train: " + write("a.jsonl", "\n") +
                          "}\nmemory: {device: 1MiB, host: 1MiB}\noutput: {dir: " + path("run") + "}\n");
  EXPECT_EQ(run({config, "--show=1"}), 4);
  EXPECT_THAT(err_, HasSubstr("a.jsonl: holds no document"));
}

TEST_F(TokenizeFiles, IdsTakeTwoBytesOrFour) {
  for (const u32 vocab_size : {0x1'0000u, 0x1'0001u}) {
    const auto writer = TokenWriter::create(path("t.bin"), vocab_size).value();
    const std::vector<u32> ids = {0, 1, vocab_size - 1, 7};
    ASSERT_TRUE(writer->append(ids));
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(writer->token_bytes(), vocab_size == 0x1'0000u ? 2u : 4u);
    EXPECT_EQ(tokens_of(path("t.bin"), vocab_size), ids);
  }
}

TEST_F(TokenizeFiles, AStopLeavesNothing) {
  const auto tokenizer = Tokenizer::open(styles + "gpt2.json").value();
  DocumentReader source({{write("a.txt", "some text")}},
                        {.cut = [&](std::string_view text) { return tokenizer->cut(text); }, .advice = {}});
  const auto pool = create_core_pool(1, Bytes{}).value();
  {
    const auto writer = TokenWriter::create(path("t.bin"), tokenizer->vocab_size()).value();
    const auto counts = tokenize(*tokenizer, source, 9, *writer, *pool, {}, {.stop = [] { return true; }});
    ASSERT_FALSE(counts);
    EXPECT_EQ(counts.error().kind, ErrorKind::interrupted);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace tidepool::tokenize_test
