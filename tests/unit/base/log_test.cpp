// The log of a process loses no line without saying so, and never holds who logs.
#include "log/log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/support/disk_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::log_test {

using test::file_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream in(file_text(path));
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { finish_log(); }
  void start(LogOptions options = {}) {
    const Result<void> started = start_log(options);
    ASSERT_TRUE(started) << started.error().message;
  }

  const test::ScratchDir dir_;
  const std::string path_ = dir_ / "run.log";
};

TEST_F(LogTest, LinesHaveTimeLevelAndNode) {
  start({.node = 3});
  open_log(path_);
  log_text(LogLevel::warning, "WARNING: first\n\nsecond\n");
  log_debug("step {}", 7);
  EXPECT_EQ(finish_log(), "");
  const std::string time = "[0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+[.][0-9]+ ";
  EXPECT_THAT(lines_of(path_), ElementsAre(MatchesRegex(time + "warning node 3 WARNING: first"),
                                           MatchesRegex(time + "warning node 3 second"),
                                           MatchesRegex(time + "debug   node 3 step 7")));
}

TEST_F(LogTest, LinesWaitUntilTheFileIsNamedAndAreAppended) {
  std::ofstream(path_) << "of an earlier run\n";
  start();
  log_text(LogLevel::info, "before");
  settle_log(std::chrono::seconds(60));
  open_log(path_);
  open_log(dir_ / "another");
  log_text(LogLevel::info, "after");
  EXPECT_EQ(finish_log(), "");
  EXPECT_THAT(lines_of(path_), ElementsAre("of an earlier run", HasSubstr("before"), HasSubstr("after")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "another"));
}

TEST_F(LogTest, AWholeLogThatWaitedIsWrittenAtTheEnd) {
  start();
  log_text(LogLevel::info, "all");
  settle_log(std::chrono::seconds(60));  // it came before the file had a name
  open_log(path_);
  EXPECT_EQ(finish_log(), "");
  EXPECT_THAT(lines_of(path_), ElementsAre(HasSubstr("all")));
}

TEST_F(LogTest, ALevelLeavesOutLess) {
  start({.least = LogLevel::warning});
  open_log(path_);
  log_text(LogLevel::info, "no");
  log_debug("no");
  log_text(LogLevel::error, "yes");
  EXPECT_EQ(finish_log(), "");
  EXPECT_THAT(lines_of(path_), ElementsAre(HasSubstr("yes")));
}

TEST_F(LogTest, WithoutALogNothingIsWritten) {
  start({.least = LogLevel::off});
  open_log(path_);
  log_text(LogLevel::error, "no");
  EXPECT_FALSE(takes_log(LogLevel::error));
  EXPECT_EQ(finish_log(), "");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LogTest, AFullFileIsTurnedOver) {
  start({.file_bytes_max = Bytes{1000}});
  open_log(path_);
  for (u32 i = 0; i < 60; ++i) log_text(LogLevel::info, fmt::format("line {} {}", i, std::string(60, '.')));
  EXPECT_EQ(finish_log(), "");
  for (const char* name : {"run.log", "run.log.1", "run.log.2"}) {
    EXPECT_LE(std::filesystem::file_size(dir_ / name), 1000u);
  }
  for (const char* name : {"run.log.1", "run.log.2"}) EXPECT_GT(lines_of(dir_ / name).size(), 5u) << name;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run.log.3"));
  EXPECT_THAT(lines_of(path_).back(), HasSubstr("line 59 "));
}

TEST_F(LogTest, AFileThatCannotBeWrittenLacksLinesAndSaysHowMany) {
  start();
  std::filesystem::create_directory(path_);
  open_log(path_);
  log_text(LogLevel::info, "one\ntwo");
  settle_log(std::chrono::seconds(60));
  std::filesystem::remove(path_);
  log_text(LogLevel::info, "three");
  EXPECT_THAT(finish_log(),
              MatchesRegex(path_ + " is not complete: 2 lines could not be written: .*directory.*"));
  EXPECT_THAT(lines_of(path_),
              ElementsAre(HasSubstr("(2 lines could not be written here: "), HasSubstr("three")));
}

// However fast the thread is: a line is in the file, or counted.
TEST_F(LogTest, AFullQueueLeavesOutOldLinesAndCountsThem) {
  constexpr u64 all = 20'000;
  start({.queue_lines = 4});
  open_log(path_);
  for (u64 i = 0; i < all; ++i) log_text(LogLevel::info, fmt::format("line {}", i));
  finish_log();
  u64 written = 0, left_out = 0;
  std::smatch found;
  for (const std::string& line : lines_of(path_)) {
    if (std::regex_search(line, found, std::regex("^[(]([0-9]+) lines? left out here")))
      left_out += std::stoull(found[1]);
    else
      ++written;
  }
  EXPECT_EQ(written + left_out, all);
  EXPECT_THAT(lines_of(path_).back(), HasSubstr(fmt::format("line {}", all - 1)));
}

TEST(LogLevels, AreReadByName) {
  EXPECT_EQ(parse_log_level("warning", "--log-level").value(), LogLevel::warning);
  const auto wrong = parse_log_level("warn", "--log-level");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "--log-level: 'warn' is not debug, info, warning, error or off");
}

}  // namespace tidepool::log_test
