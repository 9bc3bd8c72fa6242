// A run that keeps one version of its state, because a tier is short, says which and by how much; following
// it gives a plan that keeps two.
#include "fit/versions_shortage.h"

#include <gmock/gmock.h>

#include "config_files/load_config.h"
#include "fit/plan_run.h"
#include "run/assembly/summary.h"
#include "tests/support/train_fixture.h"

namespace tidepool::versions_shortage_test {

using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Planned {
  u32 versions = 0;
  std::string warning;
};

Planned plan_of(const Config& config) {
  const Job job = make_job(config).value();
  const auto run = plan_run(job, PlanFor::this_machine);
  EXPECT_TRUE(run) << run.error().message;
  if (!run) return {};
  Planned out{.versions = run->plan.versions};
  for (const std::string& note : summarize({job, run->plan}).notes)
    if (note.starts_with("WARNING: a killed run")) out.warning = note;
  return out;
}

TEST(VersionsShortage, NamesTheDiskAndWhatItLacks) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.home = HomePolicy::disk;
  config.memory.budgets.disk = Bytes{6 * mib};
  const Planned one = plan_of(config);
  EXPECT_EQ(one.versions, 1u);
  EXPECT_THAT(one.warning, HasSubstr("beside two checkpoints memory.disk needs 8160KiB and has 6144KiB"));
  config.memory.budgets.disk = Bytes{8160 * kib};
  EXPECT_EQ(plan_of(config).versions, 2u);
}

// Regression: "the disk has no room", though memory of the host was missing.
TEST(VersionsShortage, NamesTheHostAndNotTheDiskIfMemoryIsMissing) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.home = HomePolicy::mixed;
  config.memory.sweeps = 1;
  config.memory.budgets.device = Bytes{2 * mib};
  config.memory.budgets.host = Bytes{2140 * kib};
  const Planned one = plan_of(config);
  EXPECT_EQ(one.versions, 1u);
  EXPECT_THAT(one.warning, AllOf(HasSubstr("memory.host needs 2148KiB and has 2140KiB (short by 8KiB)"),
                                 HasSubstr("set memory.host=2148KiB"), Not(HasSubstr("disk"))));
  config.memory.budgets.host = Bytes{2148 * kib};
  const Planned more = plan_of(config);
  if (more.versions == 1) {
    EXPECT_THAT(more.warning, HasSubstr("set memory.versions=2"));
    config.memory.versions = 2;
    EXPECT_EQ(plan_of(config).versions, 2u);
  }
}

}  // namespace tidepool::versions_shortage_test
