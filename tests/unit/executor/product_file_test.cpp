#include "executor/product_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/disk_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::product_file_test {

using ::testing::HasSubstr;

std::string algorithm(char digit) { return std::string(128, digit); }

class ProductFileTest : public testing::Test {
 protected:
  void add(const AlgorithmsByProduct& choices) {
    auto file = ProductFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    const auto added = file->append(choices);
    ASSERT_TRUE(added) << added.error().message;
  }
  AlgorithmsByProduct known() { return ProductFile::open(path_).value().known(); }
  std::string text() const { return test::file_text(path_); }
  void write(const std::string& text) {
    std::filesystem::create_directories(dir_ / "runs");
    std::ofstream(path_) << text;
  }
  void expect_refused(const char* words) {
    for (const auto& read :
         {read_product_file(path_), ProductFile::open(path_).has_value()
                                        ? Result<AlgorithmsByProduct>(AlgorithmsByProduct())
                                        : Result<AlgorithmsByProduct>(ProductFile::open(path_).error())}) {
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().kind, ErrorKind::usage);
      EXPECT_THAT(read.error().message, HasSubstr(words));
    }
  }

  void expect_unreadable(const char* words) {
    const auto read = read_product_file(path_);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr(words));
    EXPECT_THAT(read.error().message, HasSubstr("tuned-products.txt"));
    EXPECT_THAT(read.error().message, HasSubstr("make it readable, or remove it"));
  }

  const test::ScratchDir dir_;
  const std::string path_ = dir_ / "runs/tuned-products.txt";
};

TEST_F(ProductFileTest, GivesBackWhatWasAdded) {
  EXPECT_TRUE(read_product_file(path_).value().empty()) << "there is none yet";
  const AlgorithmsByProduct choices{{"NVIDIA H200, cuBLASLt 130001: 1 x 2 x 3", algorithm('a')},
                                    {"another", algorithm('0')}};
  add(choices);
  EXPECT_EQ(read_product_file(path_).value(), choices);
  EXPECT_EQ(known(), choices);
}

TEST_F(ProductFileTest, KeepsLinesOfOtherRuns) {
  add({{"theirs", algorithm('a')}, {"both", algorithm('b')}});
  add({{"ours", algorithm('c')}, {"both", algorithm('d')}});
  EXPECT_EQ(known(), (AlgorithmsByProduct{
                         {"theirs", algorithm('a')}, {"ours", algorithm('c')}, {"both", algorithm('d')}}));
}

TEST_F(ProductFileTest, IsNotWrittenIfNothingIsNew) {
  add({{"one", algorithm('a')}});
  const auto before = std::filesystem::last_write_time(path_);
  add({});
  EXPECT_EQ(std::filesystem::last_write_time(path_), before);
}

TEST_F(ProductFileTest, RefusesALinkAndLeavesItsTarget) {
  std::filesystem::create_directories(dir_ / "runs");
  std::filesystem::create_symlink(dir_ / "elsewhere.txt", path_);
  const auto opened = ProductFile::open(path_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, ::testing::HasSubstr(path_ + ": it is a link to "));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "elsewhere.txt"));
}

TEST_F(ProductFileTest, AnAppendCutAnywhereLeavesTheLinesBeforeIt) {
  add({{"one", algorithm('a')}});
  const std::string first = text();
  add({{"two", algorithm('b')}});
  const std::string both = text();
  for (u64 bytes = 0; bytes < both.size(); ++bytes) {
    write(both.substr(0, bytes));
    AlgorithmsByProduct expected;
    if (bytes + 1 >= first.size()) expected["one"] = algorithm('a');
    if (bytes + 1 >= both.size()) expected["two"] = algorithm('b');
    ASSERT_EQ(read_product_file(path_).value(), expected) << bytes;
    const bool lacks_only_its_newline = bytes + 1 == first.size() || bytes + 1 == both.size();
    if (bytes % 7 != 0 && !lacks_only_its_newline) continue;  // each of these makes the disk wait
    add({{"three", algorithm('c')}});
    expected["three"] = algorithm('c');
    ASSERT_EQ(read_product_file(path_).value(), expected) << bytes;
  }
}

// By docs/file-formats.md alone.
TEST_F(ProductFileTest, FollowsItsDocumentedFormat) {
  const std::string content = algorithm('a') + " NVIDIA H200: 1 x 2 x 3";
  const std::string line = fmt::format("{:016x} {}\n", XXH3_64bits(content.data(), content.size()), content);
  add({{"NVIDIA H200: 1 x 2 x 3", algorithm('a')}});
  EXPECT_THAT(text(), ::testing::StartsWith("# tidepool tuned products 1\n# "));
  EXPECT_THAT(text(), ::testing::EndsWith("\n" + line));
  write("# tidepool tuned products 1\n" + line);
  EXPECT_EQ(known().size(), 1u);
}

TEST_F(ProductFileTest, SkipsRemarks) {
  add({{"one", algorithm('a')}});
  write(text() + "# of the old card\n");
  add({{"two", algorithm('b')}});
  write(text() + "# of the new card");
  add({{"three", algorithm('c')}});
  EXPECT_EQ(known().size(), 3u);
  EXPECT_THAT(text(), HasSubstr("\n# of the old card\n"));
  EXPECT_THAT(text(), HasSubstr("\n# of the new card\n"));
}

TEST_F(ProductFileTest, RefusesLinesAboveItsLimit) {
  write("# tidepool tuned products 1\n# " + std::string(16 * mib - 100, '-') + "\n");
  const std::string before = text();
  ProductFile file = ProductFile::open(path_).value();
  const auto added = file.append({{"one", algorithm('a')}});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("would be larger than 16777216 bytes. Remove it"));
  EXPECT_EQ(text(), before);
}

TEST_F(ProductFileTest, NamesTheLineWithAFlippedBit) {
  add({{"one", algorithm('a')}, {"two", algorithm('b')}});
  const std::string good = text();
  const u64 second_line = good.find('\n', good.find(algorithm('a'))) + 1;
  for (u64 bit = second_line * 8; bit < (good.size() - 1) * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write(bad);
    const auto read = read_product_file(path_);
    ASSERT_FALSE(read) << bit;
    ASSERT_THAT(read.error().message, HasSubstr("tuned-products.txt, line 5: damaged"));
  }
}

TEST_F(ProductFileTest, NamesAFileInAnotherFormatAndDoesNotChangeIt) {
  for (const char* recipe : {"a recipe", "a recipe\n", "# a recipe\n", "# tidepool tuned products 2\n"}) {
    write(recipe);
    expect_refused("tuned-products.txt is no file of timed matrix products. Remove it");
    EXPECT_EQ(text(), recipe);
  }
}

TEST_F(ProductFileTest, SaysWhatToDoIfItCannotBeRead) {
  std::filesystem::create_directories(path_);
  expect_unreadable("is not a regular file but a directory");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_unreadable("is not a regular file but a pipe");
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(path_, path_);
  expect_unreadable("leads back to itself");
}

TEST_F(ProductFileTest, TheSecondWaitsForTheFirstAndSeesWhatItAdded) {
  std::optional<ProductFile> first = ProductFile::open(path_).value();
  std::jthread second([&] { EXPECT_EQ(known().size(), 1u); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(first->append({{"one", algorithm('a')}}));
  first.reset();
}

TEST_F(ProductFileTest, AFileThatIsHeldForTooLongIsAnError) {
  const ProductFile first = ProductFile::open(path_).value();
  std::vector<std::string> said;
  const auto second =
      ProductFile::open(path_, {.patience = Nanos{50'000'000},
                                .silence = Nanos{1'000'000},
                                .say = [&](const std::string& line) { said.push_back(line); }});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::io);
  EXPECT_THAT(second.error().message, HasSubstr("held by another run that times its products: start again"));
  EXPECT_THAT(said, ::testing::ElementsAre("waiting for " + path_ +
                                           " (held by another run that times its products)"));
  EXPECT_TRUE(read_product_file(path_).value().empty()) << "a reader needs no lock";
}

TEST_F(ProductFileTest, AFileReplacedDuringTheWaitIsOpenedAgain) {
  add({{"one", algorithm('a')}});
  std::optional<ProductFile> first = ProductFile::open(path_).value();
  const auto replace = [&](const std::string&) {
    std::filesystem::rename(path_, dir_ / "gone.txt");
    add({{"two", algorithm('b')}});
    first.reset();
  };
  auto second = ProductFile::open(path_, {.silence = Nanos{}, .say = replace});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->known(), (AlgorithmsByProduct{{"two", algorithm('b')}}));
  ASSERT_TRUE(second->append({{"three", algorithm('c')}}));
  EXPECT_EQ(read_product_file(path_).value().size(), 2u);
}

TEST_F(ProductFileTest, NothingIsKeptInAFileThatWasRemovedOrReplaced) {
  for (const bool replaced : {false, true}) {
    ProductFile file = ProductFile::open(path_).value();
    std::filesystem::remove(path_);
    if (replaced) add({{"one", algorithm('a')}});
    const auto added = file.append({{"two", algorithm('b')}});
    ASSERT_FALSE(added);
    EXPECT_THAT(added.error().message, HasSubstr("removed or replaced"));
    EXPECT_FALSE(read_product_file(path_).value().contains("two"));
  }
}

TEST_F(ProductFileTest, NamesThePathIfItCannotBeWritten) {
  std::ofstream(dir_ / "runs") << "no directory";
  const auto file = ProductFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::io);
  EXPECT_THAT(file.error().message, HasSubstr("runs"));
}

}  // namespace tidepool::product_file_test
