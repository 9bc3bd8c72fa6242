// Small files are replaced as a whole, however the process ends; logs hold only whole records.
#include "base/write_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::write_file_test {

namespace fs = std::filesystem;
using test::file_text;
using test::TemporaryDirectory;
using test::write_text;
using ::testing::HasSubstr;

u64 files_in(const std::string& dir) {
  return static_cast<u64>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

mode_t permissions(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0);
  return st.st_mode & 07777;
}

// RETURNS: a pid that no process has.
pid_t dead_pid() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST(ReplaceFile, TakesThePlaceWholeAndLeavesNothingElse) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/config.yaml";
  ASSERT_TRUE(replace_file(path, "old", FileUse::run));
  ASSERT_TRUE(replace_file(path, "newer", FileUse::run));
  EXPECT_EQ(file_text(path), "newer");
  EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST(ReplaceFile, UntilItIsCommittedTheOldTextStands) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/plan.txt";
  ASSERT_TRUE(replace_file(path, "old", FileUse::run));
  {
    auto file = FileReplacement::begin(path, FileUse::run);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->append("half"));
    EXPECT_EQ(file_text(path), "old");
  }
  EXPECT_EQ(file_text(path), "old");
  EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST(ReplaceFile, KeepsPermissionsAndRefusesLinks) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/report.json", victim = dir.path() + "/victim";
  write_text(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(replace_file(path, "new", FileUse::run));
  EXPECT_EQ(permissions(path), 0600u);

  write_text(victim, "untouched");
  const std::string link = dir.path() + "/link", temporary = fmt::format("{}.tmp-{}", link, ::getpid());
  const auto refused = [&](const std::string& name) {
    const auto replaced = replace_file(link, "new", FileUse::run);
    ASSERT_FALSE(replaced);
    EXPECT_EQ(replaced.error().kind, ErrorKind::io);
    EXPECT_EQ(replaced.error().message,
              fmt::format("cannot write {}: it is a link to {}; move it away, or name "
                          "another file",
                          name, victim));
    EXPECT_TRUE(fs::is_symlink(name));
    EXPECT_EQ(file_text(victim), "untouched");
  };
  fs::create_symlink(victim, link);
  refused(link);
  fs::remove(link);
  fs::create_symlink(victim, temporary);
  refused(temporary);
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
}

TEST(ReplaceFile, ClearsWhatDeadWritersLeft) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/trace.json";
  write_text(fmt::format("{}.tmp-{}", path, dead_pid()), "half");
  write_text(path + ".tmp-1", "a live writer's");
  write_text(path + ".tmp-notes", "somebody's own");
  ASSERT_TRUE(replace_file(path, "new", FileUse::run));
  EXPECT_EQ(files_in(dir.path()), 3u);
  EXPECT_TRUE(fs::exists(path + ".tmp-1"));
  EXPECT_TRUE(fs::exists(path + ".tmp-notes"));
}

// Limits the size of files, like a disk with little space.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t most) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = most, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_{};
  void (*before_handler_)(int) = SIG_DFL;
};

TEST(ReplaceFile, AFaultLeavesTheOldTextAndNoLitter) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/report.html";
  ASSERT_TRUE(replace_file(path, "old", FileUse::run));
  {
    const FileSizeLimit limit(1000);
    const auto replaced = replace_file(path, std::string(5000, 'x'), FileUse::run);
    ASSERT_FALSE(replaced);
    EXPECT_EQ(replaced.error().kind, ErrorKind::io);
    EXPECT_THAT(replaced.error().message, HasSubstr("cannot write " + path + ": File too large (EFBIG). "));
    EXPECT_THAT(replaced.error().message, HasSubstr("ulimit -f unlimited"));
  }
  EXPECT_EQ(file_text(path), "old");
  EXPECT_EQ(files_in(dir.path()), 1u);
  const auto nowhere = replace_file(dir.path() + "/none/a", "x", FileUse::run);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("cannot create " + dir.path() + "/none/a: No such file"));
}

TEST(AppendLog, HasWholeRecordsAndContinuesAfterAFault) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/metrics.jsonl";
  auto log = AppendLog::open(path, FileUse::run);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->append("first\n"));
  {
    const FileSizeLimit limit(10);
    EXPECT_FALSE(log->append("second, which is too long\n"));  // four bytes of it fit
    EXPECT_EQ(file_text(path), "first\n");
  }
  ASSERT_TRUE(log->append("third\n"));
  ASSERT_TRUE(log->sync());
  EXPECT_EQ(file_text(path), "first\nthird\n");
  EXPECT_FALSE(AppendLog::open(dir.path(), FileUse::run));
}

TEST(MakeDirectories, MakesAllThatAreMissing) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(make_directories(dir.path() + "/a/b/c/", FileUse::run));
  EXPECT_TRUE(fs::is_directory(dir.path() + "/a/b/c"));
  EXPECT_TRUE(make_directories(dir.path() + "/a/b/c", FileUse::run));
  write_text(dir.path() + "/file", "");
  const auto refused = make_directories(dir.path() + "/file/under", FileUse::run);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot make directory " + dir.path() + "/file"));
}

}  // namespace tidepool::write_file_test
