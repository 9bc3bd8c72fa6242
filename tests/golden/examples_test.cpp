// The examples, run as their READMEs say. What they print is compared line by line: words and whole numbers must be the
// same, losses and perplexities near, times and numbers of steps are not looked at. "$ " begins a command, " ..." stands for any lines.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <regex>
#include <sstream>

#include "config/config.h"
#include "tests/support/child_run.h"
#include "tests/support/disk_fixture.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;
using testing::file_text;

struct Command {
  std::string words;               // behind the "$ "
  std::vector<std::string> lines;  // that are shown of its output
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<Command> commands_of(const std::string& readme) {
  std::vector<Command> out;
  bool code = false, shown = false;
  for (const std::string& line : lines_of(readme)) {
    if (line.starts_with("```")) {
      code = !code, shown = false;
    } else if (code && line.starts_with("$ ")) {
      out.push_back({line.substr(2), {}});
      shown = true;
    } else if (code && shown) {
      out.back().lines.push_back(line);
    }
  }
  return out;
}

bool is_time(const std::string& line) {
  static const std::regex time(R"([0-9] ?(s|ms|us|m [0-9]+s|tok/s|tokens/s)\b)");
  return std::regex_search(line, time);
}

// Nor at which step a run ends by itself, which may be another one on another processor.
std::string without_times(const std::string& line) {
  static const std::regex time(R"((in )?[0-9.]+[kM]? ?(s|ms|us|tok/s|tokens/s)\b)"), step(R"((step |checkpoint-)[0-9]+)");
  return std::regex_replace(std::regex_replace(line, time, ""), step, "$1#");
}

// Decimals are losses and perplexities, that may be others on other processors.
bool same_word(const std::string& a, const std::string& b) {
  if (a == b) return true;
  static const std::regex decimal(R"([0-9]+\.[0-9]+,?|[0-9]+,?)");
  const bool some = a.find('.') != std::string::npos || b.find('.') != std::string::npos;
  if (!some || !std::regex_match(a, decimal) || !std::regex_match(b, decimal)) return false;
  const double x = std::stod(a), y = std::stod(b);
  return std::abs(x - y) <= 0.02 * std::max(x, y);
}

bool same(const std::string& shown, const std::string& printed) {
  std::istringstream a(without_times(shown)), b(without_times(printed));
  std::string x, y;
  while (true) {
    const bool more_a = static_cast<bool>(a >> x), more_b = static_cast<bool>(b >> y);
    if (!more_a || !more_b) return more_a == more_b;
    if (!same_word(x, y)) return false;
  }
}

// Each shown line in the output, in order; next to each other where no " ..." stands between.
void compare(const Command& command, const std::string& output) {
  const std::vector<std::string> printed = lines_of(output);
  size_t at = 0;
  bool anywhere = false;
  for (const std::string& line : command.lines) {
    if (line == " ...") {
      anywhere = true;
      continue;
    }
    const size_t before = at;
    while (anywhere && at < printed.size() && !same(line, printed[at])) ++at;
    ASSERT_TRUE(at < printed.size() && (same(line, printed[at]) || is_time(line)))
        << "is shown: " << line << "\nand not printed after line " << before << " of:\n" << output;
    ++at;
    anywhere = false;
  }
}

// A directory with the repository's files in it, and runs of its own.
class Examples : public ::testing::Test {
 protected:
  Examples() {
    for (const char* name : {"examples", "configs", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"})
      fs::create_symlink(std::string(TIDEPOOL_SOURCE_DIR "/") + name, dir_ / name);
  }
  // Of a shell, as people type it. Standard error is apart: progress and remarks.
  std::string run(const std::string& words) {
    const std::string command = fmt::format("cd '{}' && {} 2>err", dir_.path(), std::regex_replace(words, std::regex("^tidepool"), TIDEPOOL_BINARY));
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer;
    for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), n);
    EXPECT_EQ(::pclose(pipe), 0) << words << "\n" << out << file_text(dir_ / "err");
    return out;
  }
  void run_all(const std::string& name) {
    const std::vector<Command> commands = commands_of(file_text(TIDEPOOL_SOURCE_DIR "/examples/" + name + "/README.md"));
    ASSERT_FALSE(commands.empty());
    for (const Command& command : commands) {
      SCOPED_TRACE(command.words);
      const std::string output = run(command.words);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
      compare(command, output);
    }
  }
  test::ScratchDir dir_;
};

TEST_F(Examples, Chat) { run_all("chat"); }
TEST_F(Examples, Continue) { run_all("continue"); }
TEST_F(Examples, Llama70b) { run_all("llama-70b"); }
TEST_F(Examples, Lora) { run_all("lora"); }

}  // namespace
}  // namespace tidepool
