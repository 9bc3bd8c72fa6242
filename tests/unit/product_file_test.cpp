#include "machine/product_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/disk_fixture.h"

namespace tidepool {
namespace {

class ProductFile : public testing::Test {
 protected:
  const test::ScratchDir dir_;
  const std::string path_ = dir_ / "runs/tuned-products.txt";
};

TEST_F(ProductFile, GivesBackWhatWasSaved) {
  EXPECT_TRUE(load_product_choices(path_).value().empty()) << "there is none yet";
  const ProductChoices choices{{"NVIDIA H200, cuBLASLt 130001: 1 x 2 x 3", "00112233445566ff"},
                               {"another", "00000000000000000000"}};
  ASSERT_TRUE(save_product_choices(path_, choices));
  EXPECT_EQ(load_product_choices(path_).value(), choices);
}

TEST_F(ProductFile, KeepsWhatOthersAdded) {
  ASSERT_TRUE(save_product_choices(path_, {{"theirs", "aaaaaaaaaaaaaaaa"}, {"both", "bbbbbbbbbbbbbbbb"}}));
  ASSERT_TRUE(save_product_choices(path_, {{"ours", "cccccccccccccccc"}, {"both", "dddddddddddddddd"}}));
  const ProductChoices all{
      {"theirs", "aaaaaaaaaaaaaaaa"}, {"ours", "cccccccccccccccc"}, {"both", "dddddddddddddddd"}};
  EXPECT_EQ(load_product_choices(path_).value(), all);
}

TEST_F(ProductFile, NamesTheLineThatIsNone) {
  std::filesystem::create_directories(dir_ / "runs");
  for (const char* line :
       {"00112233445566ff", "xyz a product", " a product", "add a product", "00112233445566ff\ta product"}) {
    std::ofstream(path_) << "# a remark\n00112233445566ff a product\n" << line << "\n";
    const auto choices = load_product_choices(path_);
    ASSERT_FALSE(choices) << line;
    EXPECT_EQ(choices.error().kind, ErrorKind::usage);
    EXPECT_NE(choices.error().message.find("tuned-products.txt, line 3"), std::string::npos)
        << choices.error().message;
  }
}

TEST_F(ProductFile, SaysWhereItCannotBeWritten) {
  std::ofstream(dir_ / "runs") << "no directory";
  const auto saved = save_product_choices(path_, {});
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::io);
  EXPECT_NE(saved.error().message.find("runs"), std::string::npos) << saved.error().message;
}

}  // namespace
}  // namespace tidepool
