// The table of docs/architecture/durability.md is that of the code. TIDEPOOL_REWRITE_GOLDEN=1 writes it
// there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/read_file.h"
#include "durability/durability.h"
#include "tests/support/places.h"

namespace tidepool::page_test {

TEST(DurabilityPage, HasTheTableOfTheCode) {
  const std::string path = source_file("docs/architecture/durability.md");
  const Result<std::string> read = read_small_file(path, mib, ErrorKind::io);
  ASSERT_TRUE(read) << read.error().message;
  const std::string begin = "<!-- table -->\n", end = "<!-- table end -->";
  const size_t from = read->find(begin) + begin.size(), to = read->find(end);
  ASSERT_TRUE(from < read->size() && to != std::string::npos && from <= to);
  if (std::getenv("TIDEPOOL_REWRITE_GOLDEN") != nullptr)
    std::ofstream(path) << read->substr(0, from) << table_text() << read->substr(to);
  else
    EXPECT_EQ(read->substr(from, to - from), table_text());
}

}  // namespace tidepool::page_test
