// Writes documents to files, with bytes as tokens, so that expected values are readable.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/batches/dataset.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::test {

class DocumentsFixture : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  // Writes documents "aaa", "bbbbb" ...: a token's letter identifies its document.
  std::string letters(const std::string& name, u32 documents, u32 longest) {
    std::string text;
    for (u32 i = 0; i < documents; ++i)
      text += "{\"text\": \"" +
              std::string(2 + i * 7 % (longest - 1),
                          static_cast<char>(i % 52 < 26 ? 'A' + i % 26 : 'a' + i % 26)) +
              "\"}\n";
    return write(name, text);
  }
  Result<std::unique_ptr<Dataset>> open(DataConfig config, u32 length = 16, u64 seed = 1) {
    return Dataset::open(config, 256, length, seed, {.cache = dir_ / "cache"});
  }
  std::unique_ptr<Dataset> opened(DataConfig config, u32 length = 16, u64 seed = 1) {
    auto data = open(config, length, seed);
    EXPECT_TRUE(data) << data.error().message;
    return data ? std::move(*data) : nullptr;
  }
  std::string fault(DataConfig config) {
    const auto data = open(config);
    if (data) return "it was taken";
    EXPECT_EQ(data.error().kind, ErrorKind::bad_input) << data.error().message;
    return data.error().message;
  }
  size_t caches() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "cache"))
      count += entry.is_directory();
    return count;
  }

  size_t caches_or_none() const { return std::filesystem::exists(dir_ / "cache") ? caches() : 0; }

  struct Row {
    explicit Row(u32 length) : tokens(length, -7), targets(length, -7), starts(length, -7) {}
    BatchArrays arrays() { return {tokens, targets, starts}; }
    std::vector<i32> tokens, targets, starts;
    bool operator==(const Row&) const = default;
  };
  static Row train_row(const Dataset& data, u64 index) {
    Row row(data.sequence_length());
    const auto read = data.train_sequence(index, row.arrays());
    EXPECT_TRUE(read) << read.error().message;
    return row;
  }

  ScratchDir dir_;
};

}  // namespace tidepool::test
