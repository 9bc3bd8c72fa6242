// Stops a save at each of its operations, by a fault and by a kill; the remaining files must always resume.
// Checks the order of syncs too, since a kill does not reveal a missing fsync.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <set>

#include "checkpoint/export_model.h"
#include "tests/support/adamw_state.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"

namespace tidepool::checkpoint_kill_test {

using test::MemoryState;
using test::open_store;
using test::some_state;
using test::TemporaryDirectory;
using test::tiny_graph;
using ::testing::HasSubstr;

struct FaultPlan {
  u64 fail_at = ~u64{0};  // number of the operation that fails
  bool dead = false;      // every later operation fails too, as if the process had died
  u64 done = 0;
  std::vector<std::string> log;

  bool fails(std::string what) {
    log.push_back(std::move(what));
    const u64 number = done++;
    return number == fail_at || (dead && number > fail_at);
  }
};

class FaultyFile final : public OutputFile {
 public:
  FaultyFile(FaultPlan& plan, std::string path, std::unique_ptr<OutputFile> real)
      : plan_(plan), path_(std::move(path)), real_(std::move(real)) {}

  Result<void> append(std::span<const std::byte> bytes) override {
    if (!plan_.fails("append " + path_)) return real_->append(bytes);
    (void)real_->append(bytes.first(bytes.size() / 2));  // a torn write
    return output_error("write", path_, ENOSPC);
  }
  Result<void> finish() override {
    if (plan_.fails("finish " + path_)) return output_error("fsync", path_, EIO);
    return real_->finish();
  }

 private:
  FaultPlan& plan_;
  std::string path_;
  std::unique_ptr<OutputFile> real_;
};

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(FaultPlan& plan) : plan_(plan) {}

  Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) override {
    if (plan_.fails("create " + path)) return output_error("create", path, ENOSPC);
    TRY_ASSIGN(auto file, real_->create(path, expected));
    return std::unique_ptr<OutputFile>(std::make_unique<FaultyFile>(plan_, path, std::move(file)));
  }
  Result<void> make_directory(const std::string& path) override {
    return plan_.fails("mkdir " + path) ? output_error("mkdir", path, ENOSPC) : real_->make_directory(path);
  }
  Result<void> sync_directory(const std::string& path) override {
    return plan_.fails("sync " + path) ? output_error("fsync", path, EIO) : real_->sync_directory(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return plan_.fails("rename " + from + " " + to) ? output_error("rename", to, EIO)
                                                    : real_->rename(from, to);
  }
  Result<void> remove(const std::string& path) override {
    return plan_.fails("remove " + path) ? output_error("remove", path, EIO) : real_->remove(path);
  }

 private:
  FaultPlan& plan_;
  std::unique_ptr<Files> real_ = create_posix_files();
};

class CheckpointFault : public ::testing::Test {
 protected:
  const ModelGraph graph_ = tiny_graph(Precision::bf16, 4, 1);
  Bytes max_shard_size_{1 * gib};

  MemoryState state_at(u64 step) {
    MemoryState state(graph_);
    state.randomise(graph_, step);
    return state;
  }
  // Saves `step` in `run_dir` under `plan`, whose count starts here.
  Result<void> save(const std::string& run_dir, u64 step, FaultPlan& plan) {
    const u64 fail_at = std::exchange(plan.fail_at, ~u64{0});
    auto store = open_store(run_dir, graph_, std::make_unique<FaultyFiles>(plan), max_shard_size_);
    plan.done = 0;
    plan.log.clear();
    plan.fail_at = fail_at;
    MemoryState state = state_at(step);
    TRY(store->save(some_state(step), state));
    TRY(store->rotate({.saved_step = step, .total_limit = 1}));
    return {};
  }
  // Acts as a new process: sweeps, and resumes from one of `steps`.
  u64 resume(const std::string& run_dir, const std::set<u64>& steps) {
    auto store = open_store(run_dir, graph_);
    EXPECT_TRUE(store->sweep().has_value());
    const auto found = store->find_resumable();
    EXPECT_TRUE(found.has_value() && found->found.has_value());
    if (!found.has_value() || !found->found.has_value()) return 0;
    EXPECT_TRUE(found->stepped_over.empty());
    const u64 step = found->found->state.step;
    EXPECT_TRUE(steps.contains(step)) << step;
    MemoryState state(graph_);
    EXPECT_TRUE(store->restore(*found->found, state).has_value());
    EXPECT_TRUE(state == state_at(step));
    for (const auto& entry : std::filesystem::directory_iterator(run_dir)) {
      EXPECT_THAT(entry.path().extension().string(), "") << "litter: " << entry.path();
    }
    return step;
  }
  u64 operations(u64 first, u64 second) {
    const TemporaryDirectory dir;
    FaultPlan plan;
    EXPECT_TRUE(save(dir.path(), first, plan).has_value());
    EXPECT_TRUE(save(dir.path(), second, plan).has_value());
    return plan.done;
  }
  void kill_at_each() {
    for (const u64 second : {u64{2}, u64{1}}) {  // a new step; the same step again
      const u64 count = operations(1, second);
      for (u64 n = 0; n < count; ++n) {
        const TemporaryDirectory dir;
        FaultPlan plan;
        ASSERT_TRUE(save(dir.path(), 1, plan).has_value());
        plan.fail_at = n;
        plan.dead = true;
        EXPECT_FALSE(save(dir.path(), second, plan).has_value());
        resume(dir.path(), {1, second});
      }
    }
  }
};

TEST_F(CheckpointFault, ResumesAfterAKillAtAnyOperation) { kill_at_each(); }

TEST_F(CheckpointFault, ResumesAfterAKillAtAnyOperationOfASaveInSeveralFiles) {
  max_shard_size_ = Bytes{300};
  kill_at_each();
}
TEST_F(CheckpointFault, AFailedOperationLeavesTheOlderCheckpointAndNoLitter) {
  const u64 count = operations(1, 2);
  for (u64 n = 0; n < count; ++n) {
    const TemporaryDirectory dir;
    FaultPlan plan;
    ASSERT_TRUE(save(dir.path(), 1, plan).has_value());
    plan.fail_at = n;
    const auto saved = save(dir.path(), 2, plan);
    if (saved) continue;  // the failed operation was part of the clean-up
    EXPECT_EQ(saved.error().kind, ErrorKind::io);
    EXPECT_THAT(saved.error().message, HasSubstr("checkpoint"));
    resume(dir.path(), {1, 2});
  }
}

// The newest checkpoint is durable before an older one is removed.
TEST_F(CheckpointFault, SyncsComeBeforeRenamesAndRenamesBeforeDeletions) {
  const TemporaryDirectory dir;
  FaultPlan plan;
  ASSERT_TRUE(save(dir.path(), 1, plan).has_value());
  ASSERT_TRUE(save(dir.path(), 2, plan).has_value());
  const std::string tmp = fmt::format("{}/checkpoint-2.tmp-{}", dir.path(), ::getpid());
  const auto at = [&](const std::string& what) {
    const auto found = std::find(plan.log.begin(), plan.log.end(), what);
    EXPECT_NE(found, plan.log.end()) << what;
    return found - plan.log.begin();
  };
  const auto placed = at("rename " + tmp + " " + dir.path() + "/checkpoint-2");
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "config.json", "trainer_state.json"}) {
    EXPECT_LT(at("finish " + tmp + "/" + file), at("create " + tmp + "/manifest.json"));
  }
  EXPECT_LT(at("finish " + tmp + "/manifest.json"), at("sync " + tmp));
  EXPECT_LT(at("sync " + tmp), placed);
  EXPECT_LT(placed, at("sync " + dir.path()));
  EXPECT_LT(at("sync " + dir.path()),
            at(fmt::format("rename {0}/checkpoint-1 {0}/checkpoint-1.gone-{1}", dir.path(), ::getpid())));
}

// If a file system refuses an operation of a save, that is found before the first step.
TEST_F(CheckpointFault, ARehearsalDoesEachOperationOfASaveAndLeavesNothing) {
  const TemporaryDirectory dir;
  FaultPlan plan;
  auto store = open_store(dir.path(), graph_, std::make_unique<FaultyFiles>(plan));
  plan.log.clear();
  plan.done = 0;
  ASSERT_TRUE(store->rehearse());
  const std::vector<std::string> log = plan.log;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  for (const char* operation : {"mkdir ", "create ", "append ", "finish ", "sync ", "rename ", "remove "})
    EXPECT_TRUE(std::ranges::any_of(log, [&](const auto& l) { return l.starts_with(operation); }))
        << operation;
  for (u64 n = 0; n < log.size(); ++n) {
    plan.done = 0;
    plan.fail_at = n;
    const auto rehearsed = store->rehearse();
    ASSERT_FALSE(rehearsed) << log[n];
    EXPECT_EQ(rehearsed.error().kind, ErrorKind::io);
    plan.fail_at = ~u64{0};
    if (!log[n].starts_with("remove ")) {
      EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << log[n];
    }
    std::filesystem::remove_all(dir.path() + fmt::format("/checkpoint-0.gone-{}", ::getpid()));
  }
}

// A full disk.
TEST_F(CheckpointFault, OnAFullDiskACheckpointIsDeletedOnlyIfAnotherVerifiesAndItIsNotTheBest) {
  const TemporaryDirectory dir;
  auto store = open_store(dir.path(), graph_);
  for (const u64 step : {1, 2, 3}) {
    MemoryState state = state_at(step);
    ASSERT_TRUE(store->save(some_state(step), state));
  }
  const auto room = [&](u64 limit, u64 best) {
    return store->make_room({.saved_step = 4, .total_limit = limit, .best_step = best}).value();
  };
  EXPECT_TRUE(room(4, 0).empty()) << "nothing goes after the save either";
  EXPECT_THAT(room(3, 1), ::testing::ElementsAre(store->path_of(2)));
  EXPECT_TRUE(room(2, 1).empty()) << "3 would go, and is the newest good one until 4 is there";
  std::string weights = test::file_text(store->path_of(3) + "/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  test::write_text(store->path_of(3) + "/model.safetensors", weights);
  EXPECT_TRUE(room(2, 0).empty()) << "1 would go, and is the newest good one now";
}

TEST_F(CheckpointFault, AnUnreadableStateStopsTheSave) {
  class BrokenState final : public StateReader {
   public:
    explicit BrokenState(Kind broken) : broken_(broken) {}
    Result<void> read(u32, Kind kind, u64, std::span<std::byte>) override {
      if (kind != broken_) return {};
      return Error{ErrorKind::io, "swap: checksum mismatch"};
    }

   private:
    const Kind broken_;
  };
  const TemporaryDirectory dir;
  auto store = open_store(dir.path(), graph_);
  BrokenState state(test::variance(graph_.state_slots));
  const auto saved = store->save(some_state(1), state);
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, HasSubstr("checksum mismatch"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(ExportFault, AFailedOperationLeavesAWholeModelOrNothing) {
  const TemporaryDirectory dir;
  const std::string source = dir.path() + "/source", out = dir.path() + "/out";
  ModelConfig model = default_model(Family::llama);
  model.vocab_size = 8, model.positions = 8, model.width = 8, model.layers = 1, model.attention.heads = 2,
  model.mlp.inner_given = 8;
  test::write_model_directory(source, model, Precision::bf16);
  const auto exported = ModelExport::open(source, {.max_shard_size = Bytes{300}}).value();
  const auto go_on = [](u64) { return true; };
  FaultPlan whole;
  FaultyFiles counting(whole);
  ASSERT_TRUE(exported->write(out, counting, go_on));
  const auto files = std::distance(std::filesystem::directory_iterator(out), {});
  for (u64 n = 0; n < whole.done; ++n) {
    std::filesystem::remove_all(out);
    FaultPlan plan{.fail_at = n};
    FaultyFiles faulty(plan);
    const auto written = exported->write(out, faulty, go_on);
    ASSERT_FALSE(written) << whole.log[n];
    EXPECT_EQ(written.error().kind, ErrorKind::io);
    if (std::filesystem::exists(out)) {
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), files) << whole.log[n];
    }
    for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
      EXPECT_THAT(entry.path().filename().string(), ::testing::AnyOf("source", "out"))
          << "litter after " << whole.log[n];
  }
}

// SaveFault has a full disk, on a small one, and InjectedFaults has it by injection.
TEST(CheckpointFile, ThatIsADeviceIsRefusedByName) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "SKIPPED: there is no /dev/full";
  for (const FileUse use : {FileUse::run, FileUse::other}) {
    const auto file = create_posix_files(use)->create("/dev/full", Bytes{0});
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().kind, ErrorKind::io);
    EXPECT_THAT(file.error().message, HasSubstr("/dev/full"));
  }
}

}  // namespace tidepool::checkpoint_kill_test
