// One bit flips anywhere in a swap file from which a job resumes: an error or a warning says so, or the job
// ends in the state of a job that nothing disturbed. Nothing is silent.
//
// TIDEPOOL_SLOT_FLIPS=100000 sets the number of flips, TIDEPOOL_POWER_SEED the first seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/power/committed_job.h"
#include "tests/power/dice.h"
#include "tests/support/cases.h"

namespace tidepool::power_flips_test {

using test::CommittedJob;
using test::Dice;
using test::from_environment;
using test::Life;
using test::Progress;

struct Tally {
  u64 refused = 0, warned = 0, mismatched = 0, unused = 0;
  u64 flips() const { return refused + warned + mismatched + unused; }
};

// RETURNS: a bit of head, commits or frames, each as often as the others.
u64 any_bit(const JournalHead& head, Dice& dice) {
  const u64 ends[] = {0, head.areas_begin(), head.frames_begin(), head.file_bytes()};
  const u64 region = dice.below(3);
  return 8 * ends[region] + dice.below(8 * (ends[region + 1] - ends[region]));
}

// Resumes from a file with one bit flipped. RETURNS: what is wrong; empty: nothing.
std::string resume(CommittedJob& job, SimulatedMedium& medium, Dice& dice, Tally& tally) {
  const Result<std::optional<FoundState>> found = CommittedJob::find(medium);
  if (!found) {
    ++tally.refused;
    return found.error().kind == ErrorKind::bad_input ? "" : "another error: " + found.error().message;
  }
  if (!*found) return "the file is taken for one of another kind";
  const bool warned = (*found)->newest_is_torn;
  if ((*found)->commit.sequence == 0) {
    ++tally.warned;
    return warned ? "" : "the commit is gone";
  }
  if (!Progress::is_of((*found)->commit.payload, (*found)->commit.step)) return "a foreign payload";
  const Life life = job.live(medium, &**found, dice.next());
  if (!life.error && life.final_state != job.state_after(job.steps()))
    return fmt::format("another final state, from step {}{}", life.began_after, warned ? ", warned" : "");
  if (life.error && life.error->message.find("checksum mismatch") == std::string::npos)
    return "another error: " + life.error->message;
  ++(warned ? tally.warned : life.error ? tally.mismatched : tally.unused);
  return "";
}

// Stops a job and flips a bit in several copies of its file.
std::string flip_some(CommittedJob& job, u64 seed, Tally& tally) {
  constexpr u64 flips = 8;
  Dice dice(seed);
  SimulatedMedium medium(job.medium());
  medium.stop_after(dice.below(job.changes_after(0) + 1));
  job.live(medium, nullptr, dice.next());
  dice.below(2) == 0 ? medium.cut_power(dice.next()) : medium.end_process(dice.next());
  const Result<std::optional<FoundState>> found = CommittedJob::find(medium);
  if (!found) return found.error().message;
  // Nothing was committed, or a warning is due whatever is flipped.
  if (!*found || (*found)->commit.sequence == 0 || (*found)->newest_is_torn) return "";
  for (u64 i = 0; i < flips; ++i) {
    SimulatedMedium flipped = medium;
    const u64 bit = any_bit((*found)->head, dice);
    flipped.flip(bit);
    const std::string wrong = resume(job, flipped, dice, tally);
    if (!wrong.empty()) return fmt::format("bit {}: {}", bit, wrong);
  }
  return "";
}

TEST(FlippedBitsOfASwapFile, AreNamedOrWithoutEffect) {
  const auto jobs = test::committed_jobs();
  const u64 wanted = from_environment("TIDEPOOL_SLOT_FLIPS", test::random_cases(8'000));
  Tally tally;
  for (u64 seed = from_environment("TIDEPOOL_POWER_SEED", 1); tally.flips() < wanted; ++seed)
    ASSERT_EQ(flip_some(*jobs[seed % jobs.size()], seed, tally), "")
        << "repeat with TIDEPOOL_POWER_SEED=" << seed << " TIDEPOOL_SLOT_FLIPS=1";
  for (const u64 count : {tally.refused, tally.warned, tally.mismatched, tally.unused})
    EXPECT_GE(count, wanted / 50);
  fmt::print("{} flips: {} refused as damaged, {} warned of, {} found by a checksum, {} without effect\n",
             tally.flips(), tally.refused, tally.warned, tally.mismatched, tally.unused);
}

}  // namespace tidepool::power_flips_test
