// Error messages: wrapped on a terminal, in one line elsewhere.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "cli/cli.h"
#include "report/error_text.h"
#include "report/screen.h"
#include "tests/support/places.h"

namespace tidepool::errors_test {

using ::testing::HasSubstr;

std::string in_columns(std::string_view message, u32 columns) {
  return error_text(message, {.columns = columns, .tty = true});
}

TEST(ReportErrors, WrapAtSpacesAndIndentLaterLines) {
  EXPECT_EQ(in_columns("one two three four", 9), "one two\n  three\n  four");
  EXPECT_EQ(in_columns("so what comes", 7), "so what\n  comes");  // a first word as wide as the indent
  EXPECT_EQ(in_columns("first\nsecond line", 8), "first\nsecond\n  line");
  EXPECT_EQ(in_columns("", 40), "");
}

TEST(ReportErrors, SettingsAndCommandsAreNeverBroken) {
  EXPECT_EQ(in_columns("see a/path/that/is/longer/than/it", 12), "see\n  a/path/that/is/longer/than/it");
  EXPECT_EQ(in_columns("set memory.host=2892KiB; or", 12), "set\n  memory.host=2892KiB;\n  or");
  EXPECT_EQ(in_columns("it needs 64.4 MiB, and has 3 s.", 13), "it needs\n  64.4 MiB,\n  and has\n  3 s.");
  EXPECT_EQ(in_columns("run 'tidepool train x' now", 16), "run\n  'tidepool train x'\n  now");
  EXPECT_EQ(in_columns("the disk's end, the host's end", 12), "the disk's\n  end, the\n  host's end");
}

TEST(ReportErrors, AreOneLineOutsideATerminal) {
  const std::string message(300, 'a');
  EXPECT_EQ(error_text(message + " " + message, {.columns = 80}), message + " " + message);
}

// RETURNS: the visible rest of a line: after a carriage return everything is rewritten.
std::string left_of(std::string line) {
  constexpr std::string_view erase = erase_lines.substr(1);  // behind the return
  while (line.ends_with('\r')) line.pop_back();
  line.erase(0, line.rfind('\r') + 1);
  if (line.starts_with(erase)) line.erase(0, erase.size());
  return line;
}

// Runs `call` with a pseudo-terminal as standard error.
// RETURNS: the text written to it.
template <class Call>
std::string on_terminal(u16 columns, Call&& call) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
  const winsize size{.ws_row = 40, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  const int end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY), before = ::dup(2);
  EXPECT_GE(end, 0);
  if (end < 0) return "";  // without a writer, reading would block for ever
  ::dup2(end, 2);
  call();
  std::fflush(stderr);
  ::dup2(before, 2);
  for (const int fd : {before, end}) ::close(fd);
  std::string text, part(4096, '\0');
  // The text arrives in pieces, followed by an error because the other end is closed.
  for (ssize_t got = 0; (got = ::read(terminal, part.data(), part.size())) > 0;)
    text.append(part, 0, static_cast<std::size_t>(got));
  ::close(terminal);
  return text;
}

// On a slow machine the search for advice prints progress, and erases it.
TEST(ReportErrors, AJobThatDoesNotFitIsReportedWithinTheTerminalsWidth) {
  ::unsetenv("COLUMNS");
  ::setenv("TERM", "xterm", 1);
  for (const u16 columns : {60, 80}) {
    int code = 0;
    const std::string text = on_terminal(columns, [&] {
      code = run_cli({"plan", source_file("configs/quickstart.yaml"), "memory.host=1MiB"});
    });
    EXPECT_EQ(code, 3);
    EXPECT_THAT(text, HasSubstr("tidepool: the job does not fit: host needs"));
    EXPECT_THAT(text, HasSubstr("memory.host="));
    std::istringstream lines(text);
    std::string line;
    for (bool is_first = true; std::getline(lines, line); is_first = false) {
      line = left_of(line);
      EXPECT_LE(line.size(), columns) << line;
      EXPECT_TRUE(line.starts_with(is_first ? "tidepool: " : "  ")) << line;
    }
  }
}

}  // namespace tidepool::errors_test
