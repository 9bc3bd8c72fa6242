// Damage to a table on disk whose rows are looked up.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "tests/support/child_run.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"

namespace tidepool::looked_up_table_test {

// The table's values, as the swap file has them in fp32.
std::string table_bytes(const std::string& base) {
  const auto bytes = test::Safetensors(base + "/model.safetensors").get<char>("model.embed_tokens.weight");
  return {bytes.begin(), bytes.end()};
}

// RETURNS: false if the file does not have the bytes yet.
bool overwrite(const std::string& path, const std::string& bytes) {
  const size_t at = test::file_text(path).find(bytes.substr(0, 256));
  if (at == std::string::npos) return false;
  // Durable at once: the run's direct writes to pages that are still dirty would fail.
  const Fd file(::open(path.c_str(), O_WRONLY | O_DSYNC));
  const std::string damage(bytes.size(), 'Z');
  return ::pwrite(file.get(), damage.data(), damage.size(), static_cast<off_t>(at)) ==
         static_cast<ssize_t>(damage.size());
}

TEST(LookedUpTable, DamageOnDiskEndsTheRunAndNamesTheTable) {
  const test::TrainDir dir;
  const std::string base = test::made_base(dir, Family::llama);
  Config c = test::lora_config(test::small_config(dir, "lora"), base);
  c.model = test::small_model(Family::llama);
  c.train.max_steps = 100'000;  // ended by the damage
  c.memory.home = HomePolicy::disk;
  c.memory.lookup = LookupPolicy::on;
  SCOPED_TRACE(test::how_to_repeat(c));
  const std::string table = table_bytes(base);
  test::ChildRun child(c);
  ASSERT_TRUE(child.wait_for_steps(2)) << child.output();
  ASSERT_TRUE(overwrite(c.output.dir + "/swap/tidepool.swap", table));
  EXPECT_EQ(child.wait(), 6) << child.output();
  EXPECT_THAT(child.output(), ::testing::ContainsRegex("checksum mismatch reading rows of embed_tokens"));
}

}  // namespace tidepool::looked_up_table_test
