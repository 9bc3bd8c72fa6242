// Rows shared by documents are planned only if the files can hold documents.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/files/source_files.h"
#include "fit/job.h"
#include "run/open_data.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::shared_rows_test {

class SharedRows : public ::testing::Test {
 protected:
  SharedRows() {
    config_.model = test::small_model(Family::llama);
    test::write_file(dir_ / "d.jsonl", "{\"text\": \"a tide\"}\n{\"text\": \"a pool\"}\n");
    test::write_file(dir_ / "e.jsonl", "{\"text\": \"held out\"}\n");
  }
  bool packs(const DataConfig& data) {
    config_.data = data;
    look_at_rows(config_);
    return make_job(config_).value().graph.batch.packed;
  }

  const test::TrainDir dir_;
  const std::string tokens_ = test::token_file(dir_);
  Config config_ = test::small_config(dir_);
};

TEST_F(SharedRows, TokensInARowDoNotShareRows) {
  EXPECT_FALSE(packs({.train = {tokens_}}));
  EXPECT_FALSE(packs({.train = {dir_.data()}})) << "text without a tokenizer is bytes in a row";
  EXPECT_FALSE(packs({.train = {tokens_}, .validation = {tokens_}}));
}

TEST_F(SharedRows, DocumentsShareRows) {
  EXPECT_TRUE(packs({.train = {dir_ / "d.jsonl"}}));
  EXPECT_FALSE(packs({.train = {dir_ / "d.jsonl"}, .packing = false}));
  EXPECT_TRUE(packs({.train = {tokens_}, .validation = {dir_ / "e.jsonl"}}))
      << "held out, they share rows too";
  test::write_byte_tokenizer(dir_ / "model");
  EXPECT_TRUE(packs({.train = {dir_.data()}, .tokenizer = dir_ / "model"}));
}

TEST_F(SharedRows, MissingFilesMayHoldDocuments) { EXPECT_TRUE(packs({.train = {dir_ / "gone"}})); }

// A row of one document gives the same bits with and without the document mask.
TEST_F(SharedRows, TheMaskOfOneDocumentChangesNoBit) {
  config_.data.validation = {dir_.data()};
  const RunReport alone = test::run(config_).value();
  config_.output.dir = dir_ / "shared";
  config_.data.validation = {dir_ / "e.jsonl"};
  const RunReport shared = test::run(config_).value();
  EXPECT_FALSE(alone.losses.empty());
  EXPECT_EQ(alone.losses, shared.losses);
}

}  // namespace tidepool::shared_rows_test
