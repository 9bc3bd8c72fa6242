// A resume that would leave committed steps behind is refused, and the refusal's advice, followed word by
// word, works, however the paths are spelled.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "io/state_journal.h"
#include "run/commits/branch_file.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::resume_advice_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::TrainDir;
using test::word_after;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Config committing_config(const TrainDir& dir, const std::string& run = "run") {
  Config c = test::small_config(dir, run);
  c.memory.home = HomePolicy::disk;
  c.memory.versions = 2;
  c.memory.swap_dir = dir / "disk";
  c.train.max_steps = 16;
  c.output.save_minutes = 0;
  c.output.persist_steps = 1;
  return c;
}

// Trains until `steps` are logged, and kills the process.
void kill_after(const Config& c, u64 steps, const std::string& resume = "") {
  ChildRun child(c, resume);
  ASSERT_TRUE(child.wait_for_steps(steps)) << child.output();
  ASSERT_EQ(child.kill_now(), 128 + SIGKILL) << child.output();
}

u64 committed_step(const std::string& swap_dir) {
  const auto found = read_state_file(swap_dir + "/tidepool.swap");
  return found && *found ? (*found)->commit.step : 0;
}

// A process that was killed as it made a commit has not noted it.
u64 noted_step(const Config& c) {
  const auto note = read_branch_note(c.output.dir);
  return note && *note ? (*note)->step : 0;
}

std::string noted_steps(const Config& c) { return read_branch_note(c.output.dir).value()->committed_steps(); }

std::string refusal(const Config& c, const std::string& resume = "auto") {
  const auto report = test::run(c, {.resume = resume});
  EXPECT_FALSE(report);
  if (report) return "";
  EXPECT_EQ(report.error().kind, ErrorKind::usage) << report.error().message;
  return report.error().message;
}

std::vector<std::string> spellings(const std::string& path) {
  const std::string relative = fs::relative(path).string();
  return {path + "/", relative, "./" + relative + "//"};
}

u64 resumed_from(const Config& c, const std::string& resume) {
  const auto report = test::run(c, {.resume = resume});
  EXPECT_TRUE(report) << report.error().message;
  return report ? report->resumed_from_step : 0;
}

TEST(ResumeAdvice, CanonicalPathsAreTheSameForEverySpellingOfANameThatIsNotThere) {
  const TrainDir dir;
  std::vector<std::string> all = spellings(dir / "missing/run");
  for (u64 i = 0, count = all.size(); i < count; ++i) all.push_back(all[i] + "/.");
  for (const std::string& spelled : all)
    EXPECT_EQ(canonical_path(spelled), fs::weakly_canonical(dir / "missing/run").string()) << spelled;
}

// Regression: a moved run was refused, with advice that was refused again or began in an empty directory.
TEST(ResumeAdvice, AMovedRunResumesFromItsCommitOnAnotherDisk) {
  for (u64 i = 0; i < 3; ++i) {
    const TrainDir dir;
    Config c = committing_config(dir);
    c.memory.swap_dir = spellings(dir / "disk")[i];
    const std::string moved = spellings(dir / "moved")[i];
    SCOPED_TRACE(moved);
    kill_after(c, 4);
    const u64 step = committed_step(dir / "disk");
    fs::rename(dir / "run", dir / "moved");
    c.output.dir = moved;
    EXPECT_EQ(resumed_from(c, "auto"), step);
    EXPECT_FALSE(fs::exists(dir / "run"));
  }
}

TEST(ResumeAdvice, OfAnotherRunsCommitNamesADirectoryFromWhichThatRunResumes) {
  for (u64 i = 0; i < 3; ++i) {
    const TrainDir dir;
    Config c = committing_config(dir);
    kill_after(c, 4);
    Config other = committing_config(dir, "other");
    other.output.dir = spellings(dir / "other")[i];
    SCOPED_TRACE(other.output.dir);
    const std::string said = refusal(other, i % 2 == 0 ? "" : "auto");
    EXPECT_THAT(said, HasSubstr("choose another memory.swap_dir, or move the file away"));
    const u64 step = committed_step(dir / "disk");
    other.output.dir = word_after(said, "output.dir=");
    EXPECT_EQ(resumed_from(other, "auto"), step);
  }
}

TEST(ResumeAdvice, ACopyOfARunDoesNotTakeTheCommitOfTheRunThatItWasCopiedFrom) {
  const TrainDir dir;
  Config c = committing_config(dir);
  ASSERT_FALSE(test::run(c, {.stop_after = 3}));  // saves
  c.train.max_steps = 60;
  kill_after(c, 8, "auto");
  fs::copy(dir / "run", dir / "copy", fs::copy_options::recursive);
  Config copy = c;
  copy.output.dir = dir / "copy";
  const u64 last = checkpoint_steps(copy.output.dir)->back(), step = committed_step(dir / "disk");
  const std::string said = refusal(copy);
  EXPECT_THAT(said, HasSubstr("choose another memory.swap_dir and train on without it"));
  copy.memory.swap_dir = dir / "other-disk";
  EXPECT_THAT(refusal(copy), AllOf(HasSubstr("is a copy"), HasSubstr("train on without it: --resume")));
  EXPECT_EQ(resumed_from(copy, word_after(said, "--resume " + copy.output.dir).insert(0, copy.output.dir)),
            last);
  EXPECT_EQ(resumed_from(c, "auto"), step);
}

TEST(ResumeAdvice, ACopyOfARunTrainsOnFromACopyOfTheFileIfThatIsNamed) {
  const TrainDir dir;
  Config c = committing_config(dir);
  kill_after(c, 4);
  const u64 step = committed_step(dir / "disk");
  fs::copy(dir / "run", dir / "copy", fs::copy_options::recursive);
  fs::copy(dir / "disk", dir / "other-disk", fs::copy_options::recursive);
  Config copy = c;
  copy.output.dir = dir / "copy";
  EXPECT_THAT(refusal(copy, dir / "disk/tidepool.swap"), HasSubstr("it is of the run in " + (dir / "run")));
  copy.memory.swap_dir = dir / "other-disk";
  EXPECT_THAT(refusal(copy),
              testing::EndsWith("or set another output.dir and another memory.swap_dir to begin anew"));
  EXPECT_EQ(resumed_from(copy, dir / "other-disk/tidepool.swap"), step);
  EXPECT_EQ(resumed_from(c, "auto"), step);
}

// Regression: an empty directory with the run's old name took its commit, and removed it in the end.
TEST(ResumeAdvice, ANewDirectoryWithTheNameOfAMovedRunDoesNotTakeItsCommit) {
  const TrainDir dir;
  Config c = committing_config(dir);
  kill_after(c, 4);
  const u64 step = committed_step(dir / "disk");
  fs::rename(dir / "run", dir / "moved");
  const std::string said = refusal(c);
  EXPECT_THAT(said, HasSubstr("if its directory was moved"));
  EXPECT_FALSE(fs::exists(dir / "run/config.yaml"));
  Config moved = c;
  moved.output.dir = dir / "moved";
  EXPECT_EQ(resumed_from(moved, "auto"), step);
}

TEST(ResumeAdvice, ACheckpointThatDoesNotExistIsNamedAndNoCommitIsToBeMovedAway) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  const std::string said = refusal(c, c.output.dir + "/checkpoint-99");
  EXPECT_THAT(said, AllOf(HasSubstr("checkpoint-99"), Not(HasSubstr("move the file away"))));
}

// Regression: the run resumed from its last checkpoint, or from nothing, without a word.
TEST(ResumeAdvice, ASwapDirectoryThatIsMissingOrEmptyIsNamedWithTheStepAndBothWaysOut) {
  for (const bool empty : {false, true}) {
    const TrainDir dir;
    Config c = committing_config(dir);
    kill_after(c, 4);
    const u64 step = committed_step(dir / "disk");
    fs::rename(dir / "disk", dir / "unmounted");
    if (empty) fs::create_directory(dir / "disk");
    for (const char* resume : {"", "auto"}) {
      const std::string said = refusal(c, resume);
      EXPECT_THAT(said, AllOf(HasSubstr(noted_steps(c) + " of this run were committed in"),
                              HasSubstr(dir / "disk"), HasSubstr("set another output.dir")));
    }
    EXPECT_FALSE(fs::exists(dir / "disk/tidepool.swap"));
    if (empty) fs::remove(dir / "disk");
    fs::rename(dir / "unmounted", dir / "disk");
    EXPECT_EQ(resumed_from(c, "auto"), step);
  }
}

// Regression: the step of a commit whose process was killed as it noted it was lost.
TEST(ResumeAdvice, AStepWhoseCommitWasBegunIsMissedToo) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.output.save_steps = 3;
  kill_after(c, 8);
  BranchNote note = *read_branch_note(c.output.dir).value();
  note.step = checkpoint_steps(c.output.dir)->back();
  note.begun = note.step + 1;
  ASSERT_TRUE(BranchFile::write(c.output.dir, note));
  fs::rename(dir / "disk", dir / "unmounted");
  EXPECT_THAT(refusal(c), HasSubstr(fmt::format("steps up to {}, perhaps {}, of this run were committed in",
                                                note.step, note.begun)));
  fs::rename(dir / "unmounted", dir / "disk");  // it holds that step, or the one before
  EXPECT_GE(resumed_from(c, "auto"), note.step);
}

TEST(ResumeAdvice, AFirstCommitThatAKillHasLeftUnfinishedIsNotMissed) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 2);
  BranchNote note = *read_branch_note(c.output.dir).value();
  note.step = 0, note.begun = 1;
  ASSERT_TRUE(BranchFile::write(c.output.dir, note));
  const std::string file = dir / "disk/tidepool.swap";
  const JournalHead head = read_state_file(file).value()->head;
  {  // as before the first commit
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    for (const u64 sequence : {0, 1}) {
      out.seekp(static_cast<std::streamoff>(head.area(sequence)));
      out << std::string(head.area_bytes, '\0');
    }
  }
  EXPECT_EQ(resumed_from(c, "auto"), 0u);
}

// Regression: the commit of an old branch won over a newer checkpoint.
TEST(ResumeAdvice, ACommitOfABranchThatTheRunHasLeftNeitherWinsNorIsIgnored) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.train.max_steps = 1000;
  c.output.save_steps = 3;
  kill_after(c, 20);
  const u64 old_step = committed_step(dir / "disk");
  const std::vector<u64> steps = checkpoint_steps(c.output.dir).value();
  ASSERT_FALSE(steps.empty());
  fs::rename(dir / "disk", dir / "old");
  // Trains on from a checkpoint, by name, and is stopped: the run is now elsewhere, and at an earlier step.
  ASSERT_EQ(test::run(c, {.resume = fmt::format("{}/checkpoint-{}", c.output.dir, steps.front()),
                          .stop_after = steps.front() + 1})
                .error()
                .kind,
            ErrorKind::interrupted);
  const u64 new_step = checkpoint_steps(c.output.dir)->back();
  ASSERT_LT(new_step, old_step);
  fs::remove_all(dir / "disk");
  fs::rename(dir / "old", dir / "disk");
  const std::string said = refusal(c);
  EXPECT_THAT(said, AllOf(HasSubstr(fmt::format("holds step {} of a branch that this run has left at step {}",
                                                old_step, steps.front())),
                          HasSubstr("move the file away and resume with --resume auto")));
  {  // one way out
    fs::copy(dir / "run", dir / "kept", fs::copy_options::recursive);
    fs::rename(dir / "disk/tidepool.swap", dir / "away");
    c.train.max_steps = new_step + 2;
    EXPECT_EQ(resumed_from(c, "auto"), new_step);
  }
  fs::remove_all(dir / "run");
  fs::rename(dir / "kept", dir / "run");
  fs::create_directories(dir / "disk");
  fs::rename(dir / "away", dir / "disk/tidepool.swap");
  c.train.max_steps = old_step + 2;  // the other
  EXPECT_EQ(resumed_from(c, word_after(refusal(c), "to return to that branch, resume with --resume ")),
            old_step);
  EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}.abandoned", c.output.dir, new_step)));
}

TEST(ResumeAdvice, AnOlderCopyOfTheCommitIsNamedAndCanBeChosen) {
  const TrainDir dir;
  Config c = committing_config(dir);
  kill_after(c, 3);
  const u64 older = committed_step(dir / "disk");
  fs::copy(dir / "disk", dir / "copy", fs::copy_options::recursive);
  kill_after(c, 9, "auto");
  const std::string newest = noted_steps(c);
  fs::rename(dir / "disk", dir / "newest");
  fs::rename(dir / "copy", dir / "disk");
  const std::string said = refusal(c);
  EXPECT_THAT(said,
              AllOf(HasSubstr(newest + " of this run"), HasSubstr(fmt::format("has step {} only", older))));
  EXPECT_EQ(resumed_from(c, word_after(said, fmt::format("train on from step {}: --resume ", older))), older);
}

TEST(ResumeAdvice, AMovedSwapDirectoryIsFoundByItsNewName) {
  const TrainDir dir;
  Config c = committing_config(dir);
  kill_after(c, 4);
  const u64 step = committed_step(dir / "disk");
  fs::rename(dir / "disk", dir / "moved");
  EXPECT_THAT(refusal(c), HasSubstr("name its new place with memory.swap_dir"));
  c.memory.swap_dir = dir / "moved";
  EXPECT_EQ(resumed_from(c, "auto"), step);
}

TEST(ResumeAdvice, ADamagedStateFileNamesTheCheckpointOrThatThereIsNone) {
  for (const u64 save_steps : {u64{0}, u64{3}}) {
    const TrainDir dir;
    Config c = committing_config(dir);
    c.output.save_steps = save_steps;
    kill_after(c, 8);
    const std::string file = dir / "disk/tidepool.swap";
    std::string head = test::file_text(file);
    head[60] = static_cast<char>(head[60] ^ 16);
    std::ofstream(file, std::ios::binary) << head;
    const auto refused = test::run(c, {.resume = "auto"});
    ASSERT_FALSE(refused);
    const std::string said = refused.error().message;
    fs::rename(file, dir / "away");
    if (save_steps == 0) {
      EXPECT_THAT(said, AllOf(HasSubstr("set another output.dir"), Not(HasSubstr("--resume"))));
      c.output.dir = dir / "anew";
      c.memory.swap_dir = dir / "disk-2";
      EXPECT_TRUE(test::run(c));
      continue;
    }
    const u64 last = checkpoint_steps(c.output.dir)->back();
    EXPECT_EQ(resumed_from(c, word_after(said, "--resume ")), last);
  }
}

}  // namespace tidepool::resume_advice_test
