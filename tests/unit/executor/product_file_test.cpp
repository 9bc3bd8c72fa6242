#include "executor/product_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/disk_fixture.h"

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
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
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

TEST_F(ProductFileTest, KeepsWhatOthersAdded) {
  add({{"theirs", algorithm('a')}, {"both", algorithm('b')}});
  add({{"ours", algorithm('c')}, {"both", algorithm('d')}});
  EXPECT_EQ(known(), (AlgorithmsByProduct{
                         {"theirs", algorithm('a')}, {"ours", algorithm('c')}, {"both", algorithm('d')}}));
}

TEST_F(ProductFileTest, IsNotTouchedWhereNothingIsNew) {
  add({{"one", algorithm('a')}});
  const auto before = std::filesystem::last_write_time(path_);
  add({});
  EXPECT_EQ(std::filesystem::last_write_time(path_), before);
}

TEST_F(ProductFileTest, FollowsALinkAndLeavesIt) {
  std::filesystem::create_directories(dir_ / "runs");
  std::filesystem::create_symlink(dir_ / "elsewhere.txt", path_);
  add({{"one", algorithm('a')}});
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read_product_file(dir_ / "elsewhere.txt").value().size(), 1u);
}

TEST_F(ProductFileTest, WhereverAnAppendIsCutOffTheLinesBeforeItHold) {
  add({{"one", algorithm('a')}});
  const std::string first = text();
  add({{"two", algorithm('b')}});
  const std::string both = text();
  for (u64 bytes = 0; bytes < both.size(); ++bytes) {
    write(both.substr(0, bytes));
    const AlgorithmsByProduct expected =
        bytes < first.size() ? AlgorithmsByProduct() : AlgorithmsByProduct{{"one", algorithm('a')}};
    ASSERT_EQ(read_product_file(path_).value(), expected) << bytes;
    if (bytes % 7 != 0) continue;  // each of these makes the disk wait
    add({{"three", algorithm('c')}});
    ASSERT_EQ(known().size(), expected.size() + 1) << bytes;
  }
}

TEST_F(ProductFileTest, NamesTheLineWithAFlippedBit) {
  add({{"one", algorithm('a')}, {"two", algorithm('b')}});
  const std::string good = text();
  const u64 second_line = good.find('\n', good.find(algorithm('a'))) + 1;
  for (u64 at = second_line; at + 1 < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write(bad);
    const auto read = read_product_file(path_);
    ASSERT_FALSE(read) << at;
    EXPECT_THAT(read.error().message, HasSubstr("tuned-products.txt, line 4: damaged"));
  }
}

TEST_F(ProductFileTest, NamesAFileOfSomethingElseAndLeavesItAlone) {
  for (const char* recipe : {"a recipe", "a recipe\n", "# a recipe\n"}) {
    write(recipe);
    expect_refused("tuned-products.txt is no file of timed matrix products. Remove it");
    EXPECT_EQ(text(), recipe);
  }
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
  const auto second = ProductFile::open(path_, Nanos{1'000'000});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::io);
  EXPECT_THAT(second.error().message, HasSubstr("held by another process"));
  EXPECT_TRUE(read_product_file(path_).value().empty()) << "a reader needs no lock";
}

TEST_F(ProductFileTest, SaysWhereItCannotBeWritten) {
  std::ofstream(dir_ / "runs") << "no directory";
  const auto file = ProductFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::io);
  EXPECT_THAT(file.error().message, HasSubstr("runs"));
}

}  // namespace tidepool::product_file_test
