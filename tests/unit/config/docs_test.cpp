#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "config/config.h"
#include "config/read/load_config.h"
#include "tests/support/places.h"

namespace tidepool::docs_test {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ConfigDocs, PageMatchesTheSchema) {
  EXPECT_EQ(read_file(source_file("docs/config.md")), config_markdown())
      << "make it again: build/release/tidepool config --markdown > docs/config.md";
}

TEST(ConfigDocs, CommittedConfigsAreValid) {
  for (const char* name : {"quickstart", "gpt-100m", "gpt-1.3b-3gib", "gpt-70b-plan"}) {
    const auto config = load_config(source_file("configs/") + name + ".yaml", {});
    EXPECT_TRUE(config) << config.error().message;
  }
}

}  // namespace tidepool::docs_test
