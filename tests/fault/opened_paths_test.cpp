// Files that a run writes are regular files: a pipe, a directory, a device or a link in the place of one is
// refused by name before the first step, nothing waits for it, and the target of a link stays as it was.
// Inputs may be links.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "io/swap_file.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/kept_model_fixture.h"
#include "tests/support/train_fixture.h"

namespace tidepool::opened_paths_test {

namespace fs = std::filesystem;
using test::file_text;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Kind {
  const char* name;
  void (*make)(const std::string& path, const std::string& elsewhere);
};

constexpr Kind kinds[] = {
    {"a pipe",
     [](const std::string& path, const std::string&) { EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
    {"a directory", [](const std::string& path, const std::string&) { fs::create_directory(path); }},
    {"a link to /dev/zero",
     [](const std::string& path, const std::string&) { fs::create_symlink("/dev/zero", path); }},
    {"a link to ",
     [](const std::string& path, const std::string& elsewhere) { fs::create_symlink(elsewhere, path); }},
};

// Puts each kind at `path` in turn. `refused` gets the kind and checks what the command says.
void in_place_of(const std::string& path, const std::string& elsewhere,
                 const std::function<void(const Kind&)>& refused) {
  for (const Kind& kind : kinds)
    for (const bool exists : {true, false}) {
      fs::create_directories(fs::path(path).parent_path());
      fs::remove_all(path);
      fs::remove(elsewhere);
      if (exists) std::ofstream(elsewhere) << "untouched";
      kind.make(path, elsewhere);
      SCOPED_TRACE(path + " is " + kind.name);
      refused(kind);
      EXPECT_EQ(file_text(elsewhere), exists ? "untouched" : "");
      EXPECT_EQ(fs::exists(elsewhere), exists);
    }
  fs::remove_all(path);
}

Config swapping(const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.memory.home = HomePolicy::disk;
  c.memory.versions = 2;
  c.memory.swap_dir = dir / "swap";
  c.output.trace = true;
  return c;
}

TEST(OpenedPaths, RefusesASwapFileThatIsNoRegularFile) {
  const TrainDir dir;
  const Config config = swapping(dir);
  for (const char* name : {swap_file_name, swap_job_name, swap_file_of_copy}) {
    const std::string path = dir / "swap/" + name;
    in_place_of(path, dir / "elsewhere", [&](const Kind& kind) {
      for (const char* resume : {"", "auto"}) {
        const auto report = test::run(config, {.resume = resume});
        ASSERT_FALSE(report);
        EXPECT_EQ(report.error().kind, ErrorKind::io) << report.error().message;
        EXPECT_THAT(report.error().message, HasSubstr(path + " is " + kind.name));
      }
      EXPECT_FALSE(fs::exists(config.output.dir + "/checkpoint-4"));
    });
  }
}

TEST(OpenedPaths, RefusesFilesOfARunThatAreNoRegularFilesBeforeItsFirstStep) {
  const TrainDir dir;
  const Config config = swapping(dir);
  for (const char* name : {"tidepool.run", "config.yaml", "plan.txt", "metrics.jsonl", "step.json",
                           "trace.json", "report.json", "report.html"}) {
    const std::string path = config.output.dir + "/" + name;
    in_place_of(path, dir / "elsewhere", [&](const Kind& kind) {
      const auto report = test::run(config);
      ASSERT_FALSE(report);
      EXPECT_THAT(report.error().message, AllOf(HasSubstr(path), HasSubstr(kind.name)));
      EXPECT_FALSE(fs::exists(config.output.dir + "/checkpoint-4"));
    });
  }
}

// A checkpoint of that name could not be written, and the run would find out after its last step.
TEST(OpenedPaths, RefusesWhatHasACheckpointsNameAndIsNone) {
  const TrainDir dir;
  const Config config = test::small_config(dir);
  ASSERT_TRUE(test::run(config));
  Config longer = config;
  longer.train.max_steps = 6;
  const std::string path = config.output.dir + "/checkpoint-6";
  const auto refused = [&](const std::string& says) {
    const auto report = test::run(longer, {.resume = "auto"});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message,
              path + " is " + says + ", and no checkpoint: move it away, or make it lead to the checkpoint");
    fs::remove(path);
  };
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused("a pipe");
  fs::create_symlink("nowhere", path);
  refused("a link that leads nowhere");
  fs::create_directory(dir / "elsewhere");
  fs::create_symlink(dir / "elsewhere", path);
  refused("a link to " + dir / "elsewhere");
  std::ofstream(path) << "text";
  refused("a file");
  // A checkpoint may be on another disk.
  fs::rename(config.output.dir + "/checkpoint-4", dir / "moved");
  fs::create_symlink(dir / "moved", config.output.dir + "/checkpoint-4");
  const auto report = test::run(longer, {.resume = "auto"});
  EXPECT_TRUE(report) << report.error().message;
}

// Links to directories are how people move a run to another disk.
TEST(OpenedPaths, DirectoriesOfARunMayBeLinks) {
  const TrainDir dir;
  const Config config = swapping(dir);
  for (const char* name : {"run", "swap"}) {
    fs::create_directory(dir / name + std::string("-on-another-disk"));
    fs::create_directory_symlink(dir / name + std::string("-on-another-disk"), dir / name);
  }
  const auto report = test::run(config);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(fs::exists(dir / "run-on-another-disk/report.json"));
}

}  // namespace tidepool::opened_paths_test
