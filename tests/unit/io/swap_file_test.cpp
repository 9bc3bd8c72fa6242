#include "io/swap_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/support/disk_fixture.h"

namespace tidepool::swap_file_test {

namespace fs = std::filesystem;
constexpr u64 file_bytes = 2 * mib;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class SwapFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = create(dir_ / "try");
    if (!made && contains(made.error().message, "tmpfs"))
      GTEST_SKIP() << "SKIPPED: the build tree is on tmpfs";
  }
  Result<std::unique_ptr<SwapFile>> create(const std::string& dir, u64 bytes = file_bytes) {
    return SwapFile::create({.dir = dir, .bytes = Bytes{bytes}});
  }
  void expect_error(const std::string& dir, std::initializer_list<std::string> parts,
                    u64 bytes = file_bytes) {
    auto result = create(dir, bytes);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::io);
    for (const std::string& part : parts)
      EXPECT_TRUE(contains(result.error().message, part)) << result.error().message;
  }
  test::ScratchDir dir_;
};

TEST_F(SwapFileTest, TakesItsSpaceAndLeavesNothing) {
  {
    auto file = create(dir_ / "swap");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(fs::file_size((*file)->path()), file_bytes);
    struct stat info {};
    ASSERT_EQ(fstat((*file)->fd(), &info), 0);
    EXPECT_GE(static_cast<u64>(info.st_blocks) * 512, file_bytes);
  }
  EXPECT_FALSE(fs::exists(dir_ / "swap"));
}

TEST_F(SwapFileTest, KeepsADirectoryThatWasThere) {
  fs::create_directory(dir_ / "mine");
  std::ofstream(dir_ / "mine/notes.txt") << "keep";
  { ASSERT_TRUE(create(dir_ / "mine")); }
  EXPECT_TRUE(fs::exists(dir_ / "mine/notes.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "mine"), {}), 1);
}

TEST_F(SwapFileTest, RefusesALiveJobsDirectory) {
  auto first = create(dir_ / "swap");
  ASSERT_TRUE(first);
  expect_error(dir_ / "swap", {dir_ / "swap", "in use", std::to_string(getpid())});
  EXPECT_EQ(fs::file_size((*first)->path()), file_bytes);  // and does not change the file
}

TEST_F(SwapFileTest, ClearsTheLitterOfAKilledJob) {
  pid_t child = fork();
  if (child == 0) {
    auto file = create(dir_ / "swap");
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(fs::exists(dir_ / "swap/tidepool.swap"));
  {
    auto file = create(dir_ / "swap");
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ((*file)->notes().size(), 1u);
    std::string note = (*file)->notes()[0];
    EXPECT_TRUE(contains(note, "cleared 2.00 MiB")) << note;
    EXPECT_TRUE(contains(note, "pid " + std::to_string(child))) << note;
  }
  EXPECT_FALSE(fs::exists(dir_ / "swap/tidepool.swap"));
}

// The next job needs no swap file.
TEST_F(SwapFileTest, LitterIsClearedWithoutANewFile) {
  const SwapFileOptions options{.dir = dir_ / "swap", .own_dir = true};
  EXPECT_EQ(clear_swap_litter(options), "");
  {
    const auto alive = create(options.dir);
    ASSERT_TRUE(alive);
    EXPECT_EQ(clear_swap_litter(options), "");
    EXPECT_TRUE(fs::exists((*alive)->path())) << "of a live job";
  }
  pid_t child = fork();
  if (child == 0) {
    auto file = create(options.dir);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(contains(clear_swap_litter(options), "cleared 2.00 MiB that a dead job"));
  EXPECT_FALSE(fs::exists(options.dir));
  fs::create_directory(options.dir);  // of a job that was killed as it removed its files
  EXPECT_EQ(clear_swap_litter(options), "");
  EXPECT_FALSE(fs::exists(options.dir));
}

TEST_F(SwapFileTest, AParentIsMadeAndRemovedIfAsked) {
  SwapFileOptions options{.dir = dir_ / "swap/node-1", .bytes = Bytes{2 * mib}, .own_dir = true};
  EXPECT_FALSE(SwapFile::create(options));
  options.makes_parent = true;
  { EXPECT_TRUE(SwapFile::create(options)); }
  EXPECT_FALSE(fs::exists(dir_ / "swap"));
  fs::create_directory(dir_ / "swap");
  { EXPECT_TRUE(SwapFile::create(options)); }
  EXPECT_TRUE(fs::exists(dir_ / "swap"));
  EXPECT_FALSE(fs::exists(options.dir));
}

TEST_F(SwapFileTest, ASuddenEndLeavesNothing) {
  pid_t child = fork();
  if (child == 0) {
    auto file = create(dir_ / "swap");
    remove_leftovers();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::exists(dir_ / "swap"));
}

TEST_F(SwapFileTest, NamesAMissingParent) {
  expect_error(dir_ / "no/such/swap", {dir_ / "no/such/swap", "No such file", "Create the directory above"});
}

TEST_F(SwapFileTest, RefusesAFileInPlaceOfTheDirectory) {
  std::ofstream(dir_ / "file") << "x";
  expect_error(dir_ / "file", {"not a directory", "memory.swap_dir"});
}

TEST_F(SwapFileTest, RefusesTmpfs) {
  struct statfs info {};
  if (statfs("/dev/shm", &info) != 0 || info.f_type != 0x01021994 || access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "SKIPPED: no tmpfs to try";
  }
  std::string dir = "/dev/shm/tidepool_test_" + std::to_string(getpid());
  expect_error(dir, {dir, "tmpfs", "SSD"});
  EXPECT_FALSE(fs::exists(dir));
}

TEST_F(SwapFileTest, SaysWhatAFullDiskNeeds) {
  u64 too_much = round_up(fs::space(dir_.path()).available + gib, frame_alignment);
  expect_error(dir_ / "swap", {dir_ / "swap", "needs", "free", "memory.swap_dir"}, too_much);
  EXPECT_FALSE(fs::exists(dir_ / "swap"));
}

TEST_F(SwapFileTest, SaysThatTheFileSizeLimitIsTooLow) {
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit low{mib, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  expect_error(dir_ / "swap", {"1.00 MiB", "2.00 MiB", "ulimit -f"});
  setrlimit(RLIMIT_FSIZE, &old);
}

TEST_F(SwapFileTest, SaysThatADirectoryIsNotWritable) {
  fs::create_directory(dir_ / "locked");
  fs::permissions(dir_.path(), fs::perms::owner_all | fs::perms::others_exec);
  fs::permissions(dir_ / "locked", fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  // Root may write anywhere, so this runs as nobody, in a child process so that this process keeps its user.
  pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(65534) != 0) _exit(2);
    auto result = create(dir_ / "locked");
    _exit(!result && contains(result.error().message, "EACCES") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace tidepool::swap_file_test
