#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "config/config.h"
#include "config/families_page.h"
#include "config_files/load_config.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::docs_test {

TEST(ConfigDocs, PageMatchesTheSchema) {
  EXPECT_EQ(test::file_text(source_file("docs/config.md")), config_markdown())
      << "make it again: build/release/tidepool config --markdown > docs/config.md";
}

TEST(FamilyDocs, PageMatchesTheRows) {
  EXPECT_EQ(test::file_text(source_file("docs/families.md")), families_markdown())
      << "make it again: build/release/tidepool config --families > docs/families.md";
}

TEST(ConfigDocs, CommittedConfigsAreValid) {
  for (const char* name : {"quickstart", "gpt-100m", "gpt-1.3b-3gib", "gpt-70b-plan"}) {
    const auto config = load_config(source_file("configs/") + name + ".yaml", {});
    EXPECT_TRUE(config) << config.error().message;
  }
}

}  // namespace tidepool::docs_test
