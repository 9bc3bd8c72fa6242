// Disks report their fallbacks and continue if the kernel gives less than asked.
//
// Each case runs in a child process, because its restrictions cannot be undone.
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "io/swap_file.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/forbid_system_call.h"

namespace tidepool::disk_fallback_test {

constexpr u64 bytes = 16 * mib;
constexpr int unsupported = 77;  // exit code of a child

// Acts like the default seccomp profile of container engines.
void forbid_io_uring() { test::forbid_system_call(__NR_io_uring_setup, EPERM); }

void need_io_uring() {
  io_uring_params params{};
  const long ring = syscall(__NR_io_uring_setup, 1, &params);
  if (ring < 0) _exit(unsupported);
  close(static_cast<int>(ring));
}
void forbid_entering() {
  need_io_uring();
  test::forbid_system_call(__NR_io_uring_enter, EPERM);
}
void forbid_registering() {
  need_io_uring();
  test::forbid_system_call(__NR_io_uring_register, EPERM);
}

void lower_memlock() {
  rlimit low{64 * kib, 64 * kib};
  if (setrlimit(RLIMIT_MEMLOCK, &low) != 0) _exit(92);
  if (getuid() == 0 && setuid(65534) != 0) _exit(93);  // the limit does not apply to root
}

bool writes_and_reads(Disk& disk, Arena& arena, test::Completions& completions) {
  auto half = [&](u64 i) { return arena.memory().subspan(i * bytes / 2, bytes / 2); };
  test::fill_random(half(0), 1);
  disk.submit({DiskOp::write, 0, half(0), 0});
  if (!completions.take(1).at(0).ok) return false;
  disk.submit({DiskOp::read, 0, half(1), 0});
  return completions.take(1).at(0).ok && test::equal(half(0), half(1));
}

// RETURNS: 0 if the disk works and its description contains all of `words`.
int child(SwapFile& file, void (*take_away)(), std::initializer_list<const char*> words) {
  take_away();
  auto arena = test::make_arena(bytes);
  test::Completions completions;
  auto disk = create_disk(file, DiskBackend::automatic, {.arenas = {arena->memory()}}, completions.sink());
  if (!disk) return 1;
  std::string text = (*disk)->describe();
  std::fprintf(stderr, "%s\n", text.c_str());
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) return 2;
  }
  return writes_and_reads(**disk, *arena, completions) ? 0 : 3;
}

// RETURNS: 0 if the disk fails every request with an error that names the reason, and still ends. The ring
// was proven before.
int child_refused_later(SwapFile& file, u32 error_number, const char* word) {
  auto arena = test::make_arena(bytes);
  test::Completions completions;
  auto disk = create_disk(file, DiskBackend::io_uring, {.queue_depth = 2, .arenas = {arena->memory()}},
                          completions.sink());
  if (!disk) return unsupported;
  test::forbid_system_call(__NR_io_uring_enter, error_number);
  for (u64 round = 0; round < 2; ++round) {  // requests in flight at the breakdown, and later requests
    for (u64 i = 0; i < 4; ++i)
      (*disk)->submit({DiskOp::write, i * 2 * mib, arena->memory().subspan(i * 2 * mib, 2 * mib), i});
    for (const DiskCompletion& done : completions.take(4)) {
      if (done.ok || done.error.kind != ErrorKind::io) return 2;
      if (done.error.message.find(word) == std::string::npos) return 3;
    }
  }
  return 0;
}

void expect_in_child(const std::function<int(SwapFile&)>& body) {
  test::ScratchDir dir;
  auto file = SwapFile::create({.dir = dir / "swap", .bytes = Bytes{bytes}});
  if (!file) GTEST_SKIP() << "SKIPPED: " << file.error().message;
  pid_t pid = fork();
  if (pid == 0) _exit(body(**file));
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == unsupported) GTEST_SKIP() << "SKIPPED: no io_uring here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

void expect_fallback(void (*take_away)(), std::initializer_list<const char*> words) {
  expect_in_child([&](SwapFile& file) { return child(file, take_away, words); });
}

TEST(DiskFallback, AKernelWithoutMemoryForRequestsFailsThem) {
  expect_in_child([](SwapFile& file) { return child_refused_later(file, ENOMEM, "ENOMEM"); });
}

TEST(DiskFallback, ARingThatIsRefusedWhileItRunsFailsRequests) {
  expect_in_child([](SwapFile& file) { return child_refused_later(file, EPERM, "EPERM"); });
}

TEST(DiskFallback, UsesThreadsIfTheKernelRefusesIoUring) {
  expect_fallback(forbid_io_uring, {"pread/pwrite", "refuses io_uring", "EPERM", "kernel.io_uring_disabled"});
}

TEST(DiskFallback, UsesThreadsIfEnteringTheRingIsRefused) {
  expect_fallback(forbid_entering,
                  {"pread/pwrite", "refuses to run it", "EPERM", "io_uring_enter", "seccomp"});
}

TEST(DiskFallback, UsesThreadsIfRegisteringBuffersIsRefused) {
  expect_fallback(forbid_registering,
                  {"pread/pwrite", "refuses to run it", "EPERM", "io_uring_register", "seccomp"});
}

TEST(DiskFallback, UsesUnregisteredBuffersIfMemlockIsLow) {
  expect_fallback(lower_memlock, {"buffers not registered", "64.00 KiB", "ulimit -l"});
}

}  // namespace tidepool::disk_fallback_test
