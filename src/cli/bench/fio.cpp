#include "cli/bench/fio.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

extern char** environ;

namespace tidepool {
namespace {

// Gives fio's buffers huge pages, which ours have, too. Without them fio moves half as much here (a 1 MiB
// block is then 256 segments), and we would compare page sizes instead of programs. glibc before 2.35 ignores
// it.
constexpr const char* huge_page_tunable = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

std::vector<char*> environment_of_fio() {
  std::vector<char*> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("GLIBC_TUNABLES=")) out.push_back(*entry);
  }
  out.push_back(const_cast<char*>(huge_page_tunable));
  out.push_back(nullptr);
  return out;
}

// Runs a program.
// `cpu_seconds`: set to its user time plus its system time.
// RETURNS: the exit status; -1 if the program could not be started.
int run_program(std::vector<std::string> words, double* cpu_seconds) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment = environment_of_fio();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  if (failed != 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status)) return -1;
  *cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  return WEXITSTATUS(status);
}

std::string escape_colons(const std::string& path) {
  std::string out;
  for (char c : path) out += c == ':' ? "\\:" : std::string(1, c);
  return out;
}

Result<DiskRate> parse(const std::string& path, double cpu_seconds) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::string json = text.str();
  boost::system::error_code ec;
  auto begin = json.find('{');  // fio may print notes before the JSON
  auto value = boost::json::parse(begin == std::string::npos ? "" : json.substr(begin), ec);
  auto error = [&] {
    return Error{ErrorKind::internal, "fio's answer is not understood: " + json.substr(0, 200)};
  };
  if (ec) return error();
  auto number = [&](const char* pointer) {
    boost::system::error_code missing;
    auto* v = value.find_pointer(pointer, missing);
    return v != nullptr && v->is_number() ? v->to_number<double>() : -1;
  };
  double read_rate = number("/jobs/0/read/bw_bytes"), write_rate = number("/jobs/0/write/bw_bytes");
  double bytes = number("/jobs/0/read/io_bytes") + number("/jobs/0/write/io_bytes");
  if (read_rate < 0 || write_rate < 0 || bytes <= 0) return error();
  return DiskRate{.bytes_per_second = read_rate + write_rate,
                  .cpu_seconds_per_gb = cpu_seconds / bytes * 1e9};
}

}  // namespace

bool fio_installed() {
  double ignored = 0;
  return run_program({"fio", "--version"}, &ignored) == 0;
}

Result<DiskRate> run_fio(const SwapFile& file, DiskPattern pattern, const DiskLoadOptions& options,
                         double seconds, const std::string& scratch) {
  constexpr const char* kinds[] = {"read", "write", "rw"};
  double cpu_seconds = 0;
  int status =
      run_program({"fio", "--name=tidepool", "--filename=" + escape_colons(file.path()),
                   fmt::format("--size={}", file.bytes().value), fmt::format("--bs={}", options.block.value),
                   fmt::format("--iodepth={}", options.depth), "--ioengine=io_uring", "--direct=1",
                   fmt::format("--rw={}", kinds[static_cast<u32>(pattern)]), "--time_based",
                   fmt::format("--runtime={}ms", static_cast<u64>(seconds * 1000)), "--allow_file_create=0",
                   "--output-format=json", "--output=" + scratch},
                  &cpu_seconds);
  if (status != 0) return Error{ErrorKind::io, fmt::format("fio failed with status {}", status)};
  auto rate = parse(scratch, cpu_seconds);
  unlink(scratch.c_str());
  return rate;
}

}  // namespace tidepool
