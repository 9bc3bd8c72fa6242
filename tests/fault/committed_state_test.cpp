// A killed run leaves its state in the swap file. Only what may resume from it touches the file; everyone
// else, and every damage, gets an error that names the file and the way out, and nothing is deleted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "config_files/load_config.h"
#include "inference/committed_checkpoint.h"
#include "io/state_journal.h"
#include "io/swap_file.h"
#include "session/state_table.h"
#include "tests/support/adamw_state.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/slow_flush.h"
#include "tests/support/train_fixture.h"

namespace tidepool::committed_state_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::numbers_of;
using test::SlowFlush;
using test::TrainDir;
using testing::AllOf;
using testing::HasSubstr;

Config committing_config(const TrainDir& dir, const std::string& run = "run") {
  Config c = test::small_config(dir, run);
  c.memory.home = HomePolicy::disk;
  c.memory.versions = 2;
  c.train.precision = Precision::bf16;
  c.train.max_steps = 24;
  c.train.max_grad_norm = 0.5;
  c.output.save_minutes = 0;
  c.output.persist_steps = 1;
  return c;
}

std::string swap_file(const Config& c) { return swap_directory(c) + "/tidepool.swap"; }

FoundState found_in(const Config& c) {
  Result<std::optional<FoundState>> found = read_state_file(swap_file(c));
  EXPECT_TRUE(found) << found.error().message;
  return found && *found ? **std::move(found) : FoundState{};
}

// Trains until `steps` are logged, and kills the process.
void kill_after(const Config& c, u64 steps, const std::string& resume = "") {
  ChildRun child(c, resume);
  ASSERT_TRUE(child.wait_for_steps(steps)) << child.output();
  ASSERT_EQ(child.kill_now(), 128 + SIGKILL) << child.output();
}

void flip_bit(const std::string& path, u64 offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 16);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

void overwrite(const std::string& path, u64 offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// RETURNS: the error of a run; the swap file must not have changed.
Error refused(const Config& c, const std::string& resume, const std::string& file) {
  const std::string before = test::file_text(file);
  const auto report = test::run(c, {.resume = resume});
  EXPECT_FALSE(report);
  EXPECT_EQ(test::file_text(file), before) << "the file was changed";
  return report ? Error{} : report.error();
}

TEST(CommittedState, IsResumedFromWithTheBitsOfAnUndisturbedRun) {
  const TrainDir dir;
  Config whole = committing_config(dir, "whole");
  whole.memory.versions = 1;
  const test::Numbers undisturbed = test::train_numbers(whole);
  const Config c = committing_config(dir);
  for (const u64 steps : {4, 9, 15}) {
    kill_after(c, steps, steps == 4 ? "" : "auto");
    const u64 committed = found_in(c).commit.step;
    EXPECT_GE(committed + 2, steps);
  }
  const u64 committed = found_in(c).commit.step;
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->resumed_from_step, committed);
  EXPECT_EQ(numbers_of(*report), undisturbed);
  EXPECT_FALSE(fs::exists(swap_file(c))) << "a run that is done leaves nothing";
}

// A process that waited between its look at the file and the lock, while another one trained on and was
// killed.
TEST(CommittedState, IsNotTouchedByAProcessThatFoundAnEarlierOne) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  const FoundState early = found_in(c);
  kill_after(c, 9, "auto");
  const u64 newest = found_in(c).commit.step;
  for (const auto way : {SwapFileOptions::Found::take_over, SwapFileOptions::Found::discard}) {
    const auto file = SwapFile::create({.dir = swap_directory(c),
                                        .bytes = Bytes{early.head.file_bytes()},
                                        .committed = way,
                                        .found = &early});
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().kind, ErrorKind::usage);
    EXPECT_THAT(file.error().message, HasSubstr("another process has changed it since"));
    EXPECT_EQ(found_in(c).commit.step, newest);
  }
}

// Regression: if a flush took longer than a step, three steps were logged beyond the last commit.
TEST(CommittedState, IsAtMostTwoStepsBehindTheLogHoweverSlowTheFlush) {
  if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer's library must be the first that is loaded";
  const TrainDir dir;
  for (const u32 versions : {2, 3}) {
    Config c = committing_config(dir, fmt::format("run{}", versions));
    c.memory.versions = versions;
    constexpr u64 steps = 4;
    {
      const SlowFlush slow("tidepool.swap", "1");
      kill_after(c, steps);
    }
    EXPECT_GE(found_in(c).commit.step + 2, steps) << versions;
  }
}

TEST(CommittedState, IsCommittedLessOftenWhereFlushesAreSlow) {
  if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer's library must be the first that is loaded";
  const TrainDir dir;
  Config c = committing_config(dir);
  c.output.persist_steps = 0;  // auto
  {
    const SlowFlush slow("tidepool.swap", "0.2");
    ChildRun child(c);
    // How much less often depends on how long the machine takes for a step (CommitPace has tests for that).
    while (child.output().find("from now on one step in ") == std::string::npos && !child.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(child.kill_now(), 128 + SIGKILL) << child.output();
  }
  const u64 committed = found_in(c).commit.step;
  EXPECT_GE(committed, 1u);
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->resumed_from_step, committed);
  Config whole = committing_config(dir, "whole");
  EXPECT_EQ(numbers_of(*report), test::train_numbers(whole));
}

TEST(CommittedState, OfAnotherRunIsNamedAndKept) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.memory.swap_dir = dir / "swap";
  kill_after(c, 4);
  Config other = committing_config(dir, "other");
  other.memory.swap_dir = c.memory.swap_dir;
  for (const char* resume : {"", "auto"}) {
    const Error error = refused(other, resume, swap_file(c));
    EXPECT_EQ(error.kind, ErrorKind::usage);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(swap_file(c)), HasSubstr(c.output.dir), HasSubstr("move the file away")));
  }
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
  EXPECT_TRUE(test::run(other)) << "the directory is free again";
}

TEST(CommittedState, IsNotLeftBehindByANewRunOrAnOlderCheckpoint) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.output.save_steps = 3;
  kill_after(c, 8);
  for (const std::string& resume : {std::string(), c.output.dir + "/checkpoint-3"}) {
    const Error error = refused(c, resume, swap_file(c));
    EXPECT_EQ(error.kind, ErrorKind::usage);
    EXPECT_THAT(error.message, AllOf(HasSubstr(swap_file(c)), HasSubstr("--resume auto"),
                                     HasSubstr(resume.empty() ? "set another output.dir to begin anew"
                                                              : "move the file away")));
  }
  fs::rename(swap_file(c), dir / "away");
  EXPECT_TRUE(test::run(c, {.resume = c.output.dir + "/checkpoint-3"}));
}

// Regression: with another memory.swap_dir the run began anew beside its committed state.
TEST(CommittedState, ElsewhereIsNamedAndKept) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  Config other = c;
  other.memory.swap_dir = dir / "elsewhere";
  for (const char* resume : {"", "auto"}) {
    const Error error = refused(other, resume, swap_file(c));
    EXPECT_EQ(error.kind, ErrorKind::usage);
    EXPECT_THAT(error.message, AllOf(HasSubstr(swap_file(c)), HasSubstr("committed after step"),
                                     HasSubstr("memory.swap_dir=" + swap_directory(c))));
  }
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
}

// Regression: `eval` and `export` found it only from the run's working directory.
TEST(CommittedState, InARelativeDirectoryIsFoundFromAnyOther) {
  const TrainDir dir;
  Config c = committing_config(dir);
  const std::string swap = dir / "swap";
  c.memory.swap_dir = fs::relative(swap).string();
  kill_after(c, 4);
  const auto kept = load_config(c.output.dir + "/config.yaml", {}, KeptModel::read);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_TRUE(fs::path(kept->memory.swap_dir).is_absolute());
  EXPECT_TRUE(fs::equivalent(kept->memory.swap_dir, swap));
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
}

TEST(CommittedState, OfAnotherModelOrPrecisionIsRefused) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  Config other = c;
  other.train.precision = Precision::fp32;
  EXPECT_THAT(refused(other, "auto", swap_file(c)).message,
              HasSubstr("train.precision is fp32, and was bf16"));
  other = c;
  other.model.layers = 2;
  EXPECT_THAT(refused(other, "auto", swap_file(c)).message, HasSubstr("was trained, and is not"));
}

TEST(CommittedState, OfOtherDataIsRefused) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  std::ofstream(dir.data(), std::ios::app) << test::made_up_text(5000);
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, AllOf(HasSubstr("the state committed in"), HasSubstr("other data")));
  EXPECT_TRUE(fs::exists(swap_file(c)));
}

TEST(CommittedState, WithADamagedHeadIsNamed) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  const FoundState found = found_in(c);
  for (const u64 offset : {u64{0}, u64{9}, u64{17}, u64{25}, u64{33}, u64{41}, u64{60},
                           u64{48 + found.head.description.size()}}) {
    SCOPED_TRACE(offset);
    flip_bit(swap_file(c), offset);
    for (const char* resume : {"", "auto"}) {
      const Error error = refused(c, resume, swap_file(c));
      EXPECT_EQ(error.kind, ErrorKind::bad_input);
      EXPECT_THAT(error.message, AllOf(HasSubstr(swap_file(c)), HasSubstr("Nothing was changed")));
    }
    flip_bit(swap_file(c), offset);
  }
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
}

TEST(CommittedState, OfALaterFormatOrCutOffIsNamed) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  overwrite(swap_file(c), 8, std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_THAT(refused(c, "auto", swap_file(c)).message, HasSubstr("has format 3"));
  overwrite(swap_file(c), 8, std::string("\x01\0\0\0\0\0\0\0", 8));
  const u64 size = fs::file_size(swap_file(c));
  const std::string whole = test::file_text(swap_file(c));
  fs::resize_file(swap_file(c), size - 4096);
  EXPECT_THAT(refused(c, "auto", swap_file(c)).message, HasSubstr("cut off"));
  std::ofstream(swap_file(c), std::ios::binary) << whole;
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
}

// Format 1 has two slots per chunk. A later reader must not take the third for one of them.
TEST(CommittedState, WithASlotThatItsFileDoesNotHaveIsRefused) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 4);
  const FoundState found = found_in(c);
  EXPECT_EQ(found.head.format, 1u);
  for (const u32 slot : {2u, 3u}) {
    std::vector<std::byte> bytes(commit_bytes(found.commit.chunks.size(), found.commit.payload.size()));
    const std::string whole = test::file_text(swap_file(c));
    std::memcpy(bytes.data(), whole.data() + found.head.area(found.commit.sequence), bytes.size());
    ChunkMark mark = found.commit.chunks[1];
    mark.slot = slot;
    encode_mark(bytes, 1, mark);
    seal_commit(bytes);
    overwrite(swap_file(c), found.head.area(found.commit.sequence),
              std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    EXPECT_EQ(found_in(c).commit.chunks[1].slot, slot);
    EXPECT_THAT(refused(c, "auto", swap_file(c)).message, HasSubstr("do not fit each other"));
  }
}

TEST(CommittedState, OfThreeVersionsIsOfFormatTwo) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.memory.versions = 3;
  kill_after(c, 8);
  const FoundState found = found_in(c);
  EXPECT_EQ(found.head.format, 2u);
  EXPECT_EQ(parse_state(found.head.description, found.path)->table.versions, 3u);
  EXPECT_EQ(numbers_of(*test::run(c, {.resume = "auto"})),
            test::train_numbers(committing_config(dir, "undisturbed")));
}

// Other slots: the state is copied, unless the number of versions is left to the planner.
TEST(CommittedState, IsResumedFromUnderAnotherNumberOfVersions) {
  const TrainDir dir;
  const test::Numbers undisturbed = test::train_numbers(committing_config(dir, "undisturbed"));
  for (const u32 first : {2u, 3u})
    for (const u32 second : {0u, 1u, 2u, 3u}) {
      Config c = committing_config(dir, fmt::format("from_{}_to_{}", first, second));
      SCOPED_TRACE(c.output.dir);
      c.memory.versions = first;
      kill_after(c, 6);
      const u64 committed = found_in(c).commit.step;
      c.memory.versions = second;
      ChildRun child(c, "auto");
      ASSERT_EQ(child.wait(), 0) << child.output();
      const RunReport report = read_report(c.output.dir).value();
      EXPECT_EQ(report.resumed_from_step, committed);
      EXPECT_EQ(numbers_of(report), undisturbed);
      const bool copies = second != 0 && second != first;
      EXPECT_EQ(child.output().find("are copied") != std::string::npos, copies) << child.output();
    }
}

// The newest commit is torn: the one before it counts, if nothing has been written to its slots since.
TEST(CommittedState, WithATornCommitIsResumedFromTheOneBeforeOrNamesTheChunk) {
  const TrainDir dir;
  const test::Numbers undisturbed = test::train_numbers(committing_config(dir, "whole"));
  const Config c = committing_config(dir);
  kill_after(c, 6);
  const FoundState found = found_in(c);
  flip_bit(swap_file(c), found.head.area(found.commit.sequence) + 50);
  const FoundState before = found_in(c);
  EXPECT_TRUE(before.newest_is_torn);
  EXPECT_EQ(before.commit.sequence + 1, found.commit.sequence);
  ChildRun child(c, "auto");
  const int code = child.wait();
  EXPECT_THAT(child.output(), HasSubstr("torn or damaged"));
  if (code == 0) {
    EXPECT_EQ(numbers_of(read_report(c.output.dir).value()), undisturbed);
    return;
  }
  EXPECT_THAT(child.output(), HasSubstr("checksum mismatch"));
  flip_bit(swap_file(c), found.head.area(found.commit.sequence - 1) + 50);
  EXPECT_THAT(refused(c, "auto", swap_file(c)).message, HasSubstr("both of its commits are damaged"));
}

TEST(CommittedState, WithADamagedSlotNamesTheChunkAndStaysUntilItIsMovedAway) {
  const TrainDir dir;
  Config c = committing_config(dir);
  c.output.save_steps = 3;
  kill_after(c, 8);
  const FoundState found = found_in(c);
  const auto described = parse_state(found.head.description, found.path);
  ASSERT_TRUE(described) << described.error().message;
  const StateTable::OfWindow& window = described->table.windows.back();
  const StateTable::Place& place =
      window.places[static_cast<u32>(test::momentum(described->table.state_slots))];
  flip_bit(swap_file(c), found.head.frames_begin() + place.offset +
                             found.commit.chunks[place.mark].slot * described->table.second_slot + 100);
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::io);
  EXPECT_THAT(report.error().message,
              AllOf(HasSubstr("momentum of " + window.name), HasSubstr("move the swap file away")));
  ASSERT_TRUE(fs::exists(swap_file(c)));
  // As a checkpoint it is damaged, too.
  const auto saved = save_committed_state(c.output.dir);
  const bool newest =
      found.commit.step > checkpoint_steps(c.output.dir)->back();  // a checkpoint may be as new
  if (newest) {
    ASSERT_TRUE(saved) << "there are checkpoints to use instead";
    EXPECT_THAT(*saved, testing::ElementsAre(HasSubstr("is not as it was committed")));
  }
  fs::rename(swap_file(c), dir / "away");
  if (newest) {
    const auto without = test::run(c, {.resume = "auto"});
    ASSERT_FALSE(without);
    EXPECT_THAT(without.error().message, HasSubstr("train on without it: --resume "));
  }
  const std::string last =
      fmt::format("{}/checkpoint-{}", c.output.dir, checkpoint_steps(c.output.dir)->back());
  EXPECT_TRUE(test::run(c, {.resume = last}));
}

TEST(CommittedState, BecomesACheckpointThatIsTheSameAsOneThatTheRunSaves) {
  const TrainDir dir;
  Config c = committing_config(dir);
  kill_after(c, 8);
  const u64 step = found_in(c).commit.step;
  const auto lines = save_committed_state(c.output.dir);
  ASSERT_TRUE(lines) << lines.error().message;
  Config whole = committing_config(dir, "whole");
  whole.output.save_steps = step;
  whole.output.save_total_limit = 100;
  ASSERT_TRUE(test::run(whole));
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
    const std::string name = fmt::format("/checkpoint-{}/{}", step, file);
    EXPECT_TRUE(test::file_text(c.output.dir + name) == test::file_text(whole.output.dir + name)) << name;
  }
  EXPECT_TRUE(save_committed_state(c.output.dir)->empty()) << "once is enough";
}

TEST(CommittedState, IsTakenIfANewerCheckpointIsNone) {
  const TrainDir dir;
  const Config c = committing_config(dir);
  kill_after(c, 8);
  const u64 step = found_in(c).commit.step;
  fs::create_directory(c.output.dir + "/checkpoint-99");
  const auto lines = save_committed_state(c.output.dir);
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}/model.safetensors", c.output.dir, step)));
}

}  // namespace tidepool::committed_state_test
