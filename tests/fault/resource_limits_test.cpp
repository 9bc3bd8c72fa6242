// System limits that the program meets: each is named, with what to do, and gives exit code 3; none is an
// internal failure or an abort.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <filesystem>
#include <functional>
#include <set>

#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/forbid_system_call.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::resource_limits_test {

namespace fs = std::filesystem;
using test::file_text;
using test::TrainDir;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uid_t nobody_in_particular = 61234;  // a user without any process
constexpr int loader_failed = 127;             // exit code of the dynamic loader

struct Outcome {
  int code = 0;  // exit code, or 128 + n after signal n
  std::string output;
};

// Runs the program under limits that it cannot lift. `limit` runs in the child, before the program.
Outcome run_limited(const std::vector<std::string>& words, const std::string& log,
                    const std::function<void()>& limit) {
  std::vector<std::string> all = words;
  all.insert(all.begin(), program_file());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(99);
    // Leak detection is off, because LeakSanitizer starts a thread of its own.
    const char* options = std::getenv("ASAN_OPTIONS");
    ::setenv("ASAN_OPTIONS", (std::string(options != nullptr ? options : "") + ":detect_leaks=0").c_str(), 1);
    limit();
    execv(program_file().c_str(), argv.data());
    _exit(98);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), file_text(log)};
}

void set_limit(__rlimit_resource which, u64 value) {
  const rlimit limit{value, value};
  if (setrlimit(which, &limit) != 0) _exit(97);
}

class ResourceLimits : public ::testing::Test {
 protected:
  // A run with threads of every kind: state on disk, disk I/O by threads, and weights from a file.
  std::vector<std::string> training(const std::string& run, const std::string& io = "threads") {
    Config c = test::small_config(dir_, run);
    c.memory.home = HomePolicy::disk;
    c.memory.chunk_size = Bytes{40 * kib};
    c.train.max_steps = 2;
    const std::string yaml = dir_ / (run + ".yaml");
    std::ofstream(yaml) << to_yaml(c);
    return {"train", yaml, "memory.io=" + io};
  }
  static void expect_told(const Outcome& r, const std::string& limit) {
    EXPECT_EQ(r.code, 3) << r.output;
    EXPECT_THAT(r.output, HasSubstr(limit));
    EXPECT_THAT(r.output, Not(HasSubstr("internal failure")));
  }

  // Records names of threads that could not start because of a limit.
  void remember_thread(const std::string& output) {
    const std::string words = "cannot start the thread tp-";
    const auto at = output.find(words);
    ASSERT_NE(at, std::string::npos) << output;
    refused_.insert(output.substr(at + words.size(), 4));
  }

  const TrainDir dir_;
  const std::string log_ = dir_ / "log";
  std::set<std::string> refused_;
};

TEST_F(ResourceLimits, OnThreadsOfTheUserAreNamedInEveryThread) {
  if (getuid() != 0) GTEST_SKIP() << "SKIPPED: needs root, to become a user without processes";
  fs::permissions(fs::path(dir_.data()).parent_path(), fs::perms::all);
  const auto as_user = [](u64 threads) {
    return [threads] {
      if (setgid(nobody_in_particular) != 0 || setuid(nobody_in_particular) != 0) _exit(96);
      set_limit(RLIMIT_NPROC, threads);
    };
  };
  u64 threads = 1;
  for (; threads < 64; ++threads) {
    fs::remove(log_);
    const Outcome r = run_limited(training("run" + std::to_string(threads)), log_, as_user(threads));
    if (r.code == 98) GTEST_SKIP() << "SKIPPED: another user may not run " << program_file();
    if (r.code == 0) break;
    ASSERT_NO_FATAL_FAILURE(expect_told(r, "(ulimit -u)"));
    EXPECT_THAT(r.output, HasSubstr("may have " + std::to_string(threads) + " processes and threads"));
    ASSERT_NO_FATAL_FAILURE(remember_thread(r.output));
  }
  EXPECT_GT(threads, 10u);
  EXPECT_LT(threads, 64u);
  for (const char* kind : {"core", "host", "comp", "chec", "disk"})
    EXPECT_TRUE(refused_.contains(kind)) << kind;
}

TEST_F(ResourceLimits, OnPidsOfACgroupAreNamedWithTheirFile) {
  const std::string v1 = "/sys/fs/cgroup/pids", base = fs::exists(v1) ? v1 : "/sys/fs/cgroup";
  const std::string group = base + "/tidepool-test-" + std::to_string(getpid());
  std::error_code error;
  fs::create_directory(group, error);
  if (error || !fs::exists(group + "/pids.max")) {
    fs::remove(group, error);
    GTEST_SKIP() << "SKIPPED: no cgroup with pids.max can be made here";
  }
  std::ofstream(group + "/pids.max") << 6;
  const Outcome r =
      run_limited(training("run"), log_, [&] { std::ofstream(group + "/cgroup.procs") << getpid(); });
  fs::remove(group, error);
  expect_told(r, group + "/pids.max allows 6 threads and 6 are in use");
  EXPECT_THAT(r.output, HasSubstr("docker --pids-limit"));
}

// Limits from below the program's code size up to plenty: each one fails at another allocation.
TEST_F(ResourceLimits, OnAddressSpaceAreNamedAtEveryAllocation) {
  if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer maps terabytes of address space for itself";
  const std::vector<std::vector<std::string>> commands = {
      {"--version"}, {"plan", source_file("configs/quickstart.yaml")}, training("run")};
  for (const auto& words : commands) {
    SCOPED_TRACE(words[0]);
    u32 told = 0;
    for (u64 limit = 16 * mib; limit <= 4096 * mib; limit += limit / 8) {
      SCOPED_TRACE(limit / mib);
      const Outcome r = run_limited(words, log_, [&] { set_limit(RLIMIT_AS, limit); });
      // Below its code size, the loader ends the program before it runs, with one of several texts.
      if (r.code == loader_failed) {
        EXPECT_EQ(told, 0u) << r.output;
        continue;
      }
      if (r.code == 0) break;
      ++told;
      expect_told(r, "ulimit -v");
    }
    EXPECT_GT(told, 0u);
  }
}

u64 count(const std::string& text, const std::string& words) {
  u64 n = 0;
  for (u64 at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}

TEST_F(ResourceLimits, OnIoUringFallBackToThreadsWithOneNote) {
  for (const u32 call : {__NR_io_uring_setup, __NR_io_uring_enter, __NR_io_uring_register}) {
    const std::string run = "run" + std::to_string(call);
    const Outcome r =
        run_limited(training(run, "auto"), log_, [&] { test::forbid_system_call(call, EPERM); });
    EXPECT_EQ(r.code, 0) << r.output;
    EXPECT_EQ(count(r.output, "pread/pwrite on"), 1u) << r.output;
    EXPECT_EQ(count(r.output, "seccomp profile"), 1u) << r.output;
  }
}

}  // namespace tidepool::resource_limits_test
