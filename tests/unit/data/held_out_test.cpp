// Evaluation files of the user: every token is evaluated once, each file separately, none of them is trained
// on.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "data/batches/batch_source.h"
#include "data/batches/held_out_files.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::held_out_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr u32 length = 8;

class HeldOut : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  Result<std::unique_ptr<Dataset>> open(const DataConfig& config) {
    return Dataset::open(config, 256, length, 1, {.cache = dir_ / "cache"});
  }
  // RETURNS: all targets in held-out sequences, in order.
  static std::string targets(const Dataset& data) {
    std::string out;
    std::vector<i32> tokens(length), targets(length), starts(length);
    for (u64 i = 0; i < data.validation_sequences(); ++i) {
      EXPECT_TRUE(data.validation_sequence(i, {tokens, targets, starts}));
      for (const i32 t : targets)
        if (has_loss(t)) out += static_cast<char>(t);
    }
    return out;
  }
  test::ScratchDir dir_;
};

TEST_F(HeldOut, EveryTokenCountsOnceAndTheLastRowIsShorter) {
  const auto data = open({.train = {write("train.txt", std::string(100, 't'))},
                          .validation = {write("a.txt", "0123456789abcdefghijk"), write("b.txt", "xyz")}});
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ((*data)->validation_sequences(), 4u);
  EXPECT_EQ(targets(**data), "123456789abcdefghijkyz");
  EXPECT_THAT((*data)->held_out_parts(),
              ElementsAre(HeldOutPart{dir_ / "a.txt", 3}, HeldOutPart{dir_ / "b.txt", 1}));
  EXPECT_EQ((*data)->train_sequences(), 13u);  // no fraction of it is held out
}

TEST_F(HeldOut, OtherFilesChangeTheFingerprint) {
  DataConfig config{.train = {write("train.txt", std::string(100, 't'))},
                    .validation = {write("a.txt", "0123456789")}};
  const std::string first = (*open(config))->fingerprint();
  EXPECT_EQ((*open(config))->fingerprint(), first);
  config.validation = {write("b.txt", "0123456788")};
  EXPECT_NE((*open(config))->fingerprint(), first);
}

TEST_F(HeldOut, DocumentsAreHeldOutWhole) {
  const auto data = open({.train = {write("train.jsonl", "{\"text\": \"tttt\"}\n{\"text\": \"uuuu\"}\n")},
                          .validation = {write("a.jsonl", "{\"text\": \"abcd\"}\n{\"text\": \"efg\"}\n")}});
  ASSERT_TRUE(data) << data.error().message;
  std::string sorted = targets(**data);
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, "bcdfg");
}

// A .json in a folder is text, and a .json from a pattern is records: for training and for held-out data, few
// or many.
TEST_F(HeldOut, JsonIsReadAsDataTrainReadsIt) {
  const auto trained_tokens = [&](const std::string& entry) { return (*open({.train = {entry}}))->tokens(); };
  const auto held_out = [&](const std::string& entry) {
    return targets(**open({.train = {write("t.txt", std::string(100, 't'))}, .validation = {entry}}));
  };
  std::filesystem::create_directories(dir_ / "few");
  std::filesystem::create_directories(dir_ / "many");
  const std::string record = "{\"text\": \"ab\"}\n";
  write("few/0.json", record);
  for (u32 i = 0; i < HeldOutFiles::parts_max + 1; ++i) write(fmt::format("many/{}.json", i), record);
  EXPECT_EQ(trained_tokens(dir_ / "few/*.json"), 2u);
  EXPECT_EQ(held_out(dir_ / "few/*.json"), "b");
  EXPECT_EQ(held_out(dir_ / "many/*.json"), std::string(HeldOutFiles::parts_max + 1, 'b'));
  EXPECT_EQ(trained_tokens(dir_ / "few"), record.size());
  EXPECT_EQ(held_out(dir_ / "few"), record.substr(1));
  EXPECT_THAT(held_out(dir_ / "many"), HasSubstr(record));
}

TEST_F(HeldOut, FilesThatAreTrainedOnOrOfAnotherKindAreNoted) {
  std::filesystem::create_directories(dir_ / "all");
  const std::string record = "{\"text\": \"abcdefghij\"}\n", text = write("t.txt", std::string(100, 't'));
  const std::string one = write("all/1.jsonl", record), other = write("other.jsonl", record);
  const auto notes = [&](const std::string& train, const std::string& held_out) {
    return fmt::format("{}", fmt::join((*open({.train = {train}, .validation = {held_out}}))->notes(), "\n"));
  };
  EXPECT_THAT(notes(dir_ / "all", one),
              HasSubstr("files of data.validation that are also in data.train, and trained on: 1 of 1"));
  EXPECT_THAT(notes(dir_ / "all", other), Not(HasSubstr("data.validation")));
  EXPECT_THAT(notes(text, other),
              HasSubstr("data.train is read as tokens in a row, data.validation as documents"));
  EXPECT_THAT(notes(other, text), HasSubstr("data.train is read as documents, data.validation as tokens"));
}

TEST_F(HeldOut, ManyFilesAreOnePart) {
  for (u32 i = 0; i < HeldOutFiles::parts_max + 1; ++i)
    write(fmt::format("v{:02}.txt", i), "abcdefghijklmnop");
  const auto data =
      open({.train = {write("train.txt", std::string(100, 't'))}, .validation = {dir_ / "v*.txt"}});
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ((*data)->held_out_parts().size(), 1u);
}

TEST_F(HeldOut, FaultsNameTheFile) {
  const std::string train = write("train.txt", std::string(100, 't'));
  const auto refusal = [&](const std::string& file) {
    const auto data = open({.train = {train}, .validation = {file}});
    EXPECT_FALSE(data);
    EXPECT_EQ(data.error().kind, ErrorKind::bad_input);
    return data.error().message;
  };
  EXPECT_THAT(refusal(dir_ / "none.txt"), HasSubstr("correct data.validation"));
  EXPECT_THAT(refusal(write("empty.txt", "")), HasSubstr("empty.txt: the data file is empty"));
  EXPECT_THAT(refusal(write("one.txt", "x")), HasSubstr("one.txt: 1 token leaves nothing to predict"));
}

TEST_F(HeldOut, MessagesNameRecordsIfThereAreSome) {
  const auto data = open({.train = {write("t.txt", std::string(100, 't'))}, .records = "messages"});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().kind, ErrorKind::usage);
  EXPECT_THAT(data.error().message,
              AllOf(HasSubstr("data.records: is messages, but nothing in data.train is read as records"),
                    HasSubstr("t.txt"), HasSubstr("leave data.records out")));
  // Neither in data.train nor in the held-out files.
  std::filesystem::create_directories(dir_ / "folder");
  const std::string record = "{\"text\": \"ab\"}\n", lines = write("t.jsonl", record + record);
  write("folder/a.json", record);
  for (const DataConfig& config :
       {DataConfig{.train = {lines, dir_ / "folder"}, .records = "text"},
        DataConfig{.train = {lines}, .validation = {dir_ / "folder"}, .records = "text"}}) {
    const auto refused = open(config);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("data.records: is text, but"),
                                               HasSubstr("folder/a.json, found in a folder")));
  }
}

}  // namespace tidepool::held_out_test
