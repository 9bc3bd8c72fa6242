// Every file is opened by base/open_file.h, which refuses pipes, devices and links; other code opens
// directories, and files of the kernel.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "tests/support/places.h"

namespace tidepool::opened_files_test {

namespace fs = std::filesystem;

// Readers of /proc, /sys, and of what a child process has just written.
const std::set<std::string> readers_of_the_kernel = {
    "io/directory_lock.cpp",       "io/memory_limits.cpp",     "src/base/process/cgroup.cpp",
    "src/base/process/limits.cpp", "src/cli/bench/fio.cpp",    "src/cli/doctor_disk.cpp",
    "src/cli/doctor_machine.cpp",  "src/machine/cpu_name.cpp", "src/machine/nvml.cpp",
    "src/machine/topology.cpp"};

// RETURNS: why the line may not stand in that file; empty: it may.
std::string fault_of(const std::string& file, const std::string& line) {
  static const std::regex call(R"((^|[^A-Za-z_.>])open(at)?\([^;]*\bO_[A-Z]+)");
  static const std::regex harmless(R"(O_DIRECTORY|"/proc/|\bproc_self_fd\b|"/dev/null")");
  static const std::regex stream(R"(\bfopen\(|\bofstream\b|\bfstream\b[^>])");
  if (line.find("//") != std::string::npos && line.find("//") == line.find_first_not_of(' ')) return "";
  if (std::regex_search(line, call) && !std::regex_search(line, harmless)) return "open(2)";
  if (std::regex_search(line, stream)) return "a stream that writes";
  const bool reads = line.find("ifstream") != std::string::npos;
  return reads && !readers_of_the_kernel.contains(file) ? "a stream that reads" : "";
}

TEST(OpenedFiles, AreOpenedByOneFunction) {
  const fs::path root = source_file("");
  for (const char* folder : {"src", "io", "chunk_manager", "kernels", "include"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string file = fs::relative(entry.path(), root).string();
      const std::string kind = entry.path().extension();
      if (file == "src/base/open_file.cpp" || (kind != ".cpp" && kind != ".h" && kind != ".cu")) continue;
      if (file.ends_with("_test.cpp") || file.ends_with("_bench.cpp")) continue;
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        if (line.starts_with("#include")) continue;
        EXPECT_EQ(fault_of(file, line), "")
            << fmt::format("{}:{}: {}; use base/open_file.h", file, number, line);
      }
    }
}

}  // namespace tidepool::opened_files_test
