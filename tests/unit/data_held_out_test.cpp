// Files of one's own to evaluate on: every token of them once, each file by itself, none of them trained on.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "data/batch_source.h"
#include "data/held_out_files.h"
#include "tests/support/disk_fixture.h"

namespace tidepool {
namespace {

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
  // What is to be predicted in all held-out sequences, in order.
  static std::string targets(const Dataset& data) {
    std::string out;
    std::vector<i32> tokens(length), targets(length), starts(length);
    for (u64 i = 0; i < data.validation_sequences(); ++i) {
      EXPECT_TRUE(data.validation_sequence(i, {tokens, targets, starts}));
      for (const i32 t : targets)
        if (t != ignored_target) out += static_cast<char>(t);
    }
    return out;
  }
  test::ScratchDir dir_;
};

TEST_F(HeldOut, EveryTokenOnceAndTheLastRowShorter) {
  const auto data = open({.train = {write("train.txt", std::string(100, 't'))},
                          .validation = {write("a.txt", "0123456789abcdefghijk"), write("b.txt", "xyz")}});
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ((*data)->validation_sequences(), 4u);
  EXPECT_EQ(targets(**data), "123456789abcdefghijkyz");
  EXPECT_THAT((*data)->held_out_parts(),
              ElementsAre(HeldOutPart{dir_ / "a.txt", 3}, HeldOutPart{dir_ / "b.txt", 1}));
  EXPECT_EQ((*data)->train_sequences(), 13u);  // no share of it is held out
}

TEST_F(HeldOut, OtherFilesAreOtherData) {
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
  EXPECT_THAT(refusal(write("one.txt", "x")), HasSubstr("one.txt: 1 token is nothing to predict"));
}

}  // namespace
}  // namespace tidepool
