// Power cuts on a simulated medium: a job that is stopped again and again, at any moment, resumes from its
// swap file and ends in the state of a job that nothing disturbed.
//
// TIDEPOOL_POWER_CUTS=1000000 sets the number of power cuts, TIDEPOOL_POWER_SEED the first seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/power/committed_job.h"
#include "tests/power/dice.h"
#include "tests/support/cases.h"

namespace tidepool::power_cut_test {

using test::CommittedJob;
using test::Dice;
using test::from_environment;
using test::Life;
using test::Progress;

struct Tally {
  u64 cuts = 0, ends = 0, anew = 0, resumed = 0, torn = 0;
};

// RETURNS: changes of the medium until the stop. Half of the stops strike at the next commit, where all is
// decided.
u64 moment(const CommittedJob& job, u64 done, Dice& dice) {
  const u64 commit = job.changes_to_commit(done), before = dice.below(5);
  if (dice.below(2) == 0) return commit - std::min(before, commit);
  return dice.below(std::min(2 * commit, job.changes_after(done)) + 1);
}

// Trial is one job that is stopped several times. At each stop the power is cut in several ways, on copies of
// the medium: each must leave the committed state to the bit, and the job resumes from one.
class Trial {
 public:
  Trial(CommittedJob& job, u64 seed, bool flushes, Tally& tally)
      : job_(job), dice_(seed), tally_(tally), options_(job.medium()) {
    options_.flushes = flushes;
  }

  // RETURNS: what is wrong; empty: nothing.
  std::string run() {
    std::optional<SimulatedMedium> medium(std::in_place, options_);
    for (u64 stops_left = 1 + dice_.below(6); stops_left > 0; --stops_left) {
      medium->stop_after(moment(job_, step(), dice_));
      std::string wrong = live(*medium);
      if (!wrong.empty()) return wrong;
      if (dice_.below(5) == 0) {
        medium->end_process(dice_.next());
        ++tally_.ends;
        wrong = look(*medium);
      } else {
        wrong = cut(*medium);
      }
      if (!wrong.empty()) return wrong;
      if (!found_) medium.emplace(options_);
    }
    return live(*medium);
  }

 private:
  u64 step() const { return found_ ? found_->commit.step : 0; }

  std::string live(SimulatedMedium& medium) {
    const Life life = job_.live(medium, found_ ? &*found_ : nullptr, dice_.next());
    if (life.committed > 0) committed_ = life.committed;
    if (medium.stopped()) return life.error ? "" : "no error although the disk stopped";
    if (life.error) return "an error without a fault: " + life.error->message;
    if (life.final_state == job_.state_after(job_.steps())) return "";
    return fmt::format("another final state, from step {}", life.began_after);
  }

  std::string cut(SimulatedMedium& medium) {
    constexpr u32 others = 3;
    for (u32 i = 0; i < others; ++i) {
      SimulatedMedium other = medium;
      other.cut_power(dice_.next());
      if (std::string wrong = look(other); !wrong.empty()) return wrong;
      if (!found_) continue;
      const Result<u64> state = job_.committed_state(other, *found_);
      if (!state) return "unrecoverable: " + state.error().message;
      if (*state != job_.state_after(step())) return fmt::format("another state after step {}", step());
    }
    medium.cut_power(dice_.next());
    tally_.cuts += others + 1;
    return look(medium);
  }

  // Finds what a new process finds.
  std::string look(const SimulatedMedium& medium) {
    const Result<std::optional<FoundState>> found = CommittedJob::find(medium);
    if (!found) return "unrecoverable: " + found.error().message;
    found_.reset();
    if (*found && (*found)->newest_is_torn) ++tally_.torn;
    if (*found && (*found)->commit.sequence > 0) found_ = **found;
    found_ ? ++tally_.resumed : ++tally_.anew;
    if (step() < committed_)
      return fmt::format("step {} was committed, and step {} is found", committed_, step());
    if (!found_ || Progress::is_of(found_->commit.payload, step())) return "";
    return fmt::format("step {} has a foreign payload", step());
  }

  CommittedJob& job_;
  Dice dice_;
  Tally& tally_;
  MediumOptions options_;
  std::optional<FoundState> found_;
  u64 committed_ = 0;
};

class PowerCut : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { jobs_ = test::committed_jobs(); }
  static void TearDownTestSuite() { jobs_.clear(); }
  static CommittedJob& job(u64 seed) { return *jobs_[seed % jobs_.size()]; }
  static std::vector<std::unique_ptr<CommittedJob>> jobs_;
};
std::vector<std::unique_ptr<CommittedJob>> PowerCut::jobs_;

TEST_F(PowerCut, AnyMomentIsSurvivedToTheBit) {
  const u64 wanted = from_environment("TIDEPOOL_POWER_CUTS", test::random_cases(40'000));
  ASSERT_GT(jobs_.size(), 20u);
  Tally tally;
  u64 seed = from_environment("TIDEPOOL_POWER_SEED", 1);
  for (; tally.cuts < wanted; ++seed) {
    const std::string wrong = Trial(job(seed), seed, true, tally).run();
    ASSERT_EQ(wrong, "") << "repeat with TIDEPOOL_POWER_SEED=" << seed << " TIDEPOOL_POWER_CUTS=1";
  }
  if (wanted > 1000) {  // else a seed is repeated
    EXPECT_GT(tally.resumed, tally.cuts / 4);
    EXPECT_GT(tally.torn, tally.cuts / 100);
  }
  fmt::print(
      "{} power cuts and {} ends of a process: {} times resumed, {} with a torn commit, {} times anew\n",
      tally.cuts, tally.ends, tally.resumed, tally.torn, tally.anew);
}

TEST_F(PowerCut, ADriveThatLiesAboutFlushesIsNoticed) {
  u64 noticed = 0;
  Tally tally;
  for (u64 seed = 1; seed <= 200; ++seed) noticed += !Trial(job(seed), seed, false, tally).run().empty();
  EXPECT_GT(noticed, 20u);
}

}  // namespace tidepool::power_cut_test
