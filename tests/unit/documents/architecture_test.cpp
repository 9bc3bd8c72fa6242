// ARCHITECTURE.md: each op in "The life of one step" equals the op of the golden plan, without frames.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "tests/support/places.h"

namespace tidepool::architecture_test {

using ::testing::Contains;
using ::testing::Key;

std::string source_text(const std::string& name) {
  const Result<std::string> text = read_small_file(source_file(name), mib, ErrorKind::io);
  EXPECT_TRUE(text) << name;
  return text ? *text : std::string();
}

// The text after `begin` and before `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t at = text.find(begin);
  if (at == std::string::npos) return {};
  const size_t from = at + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

// "30 host update step-1 <grad.w3c0@0host ... after 22 23": single spaces, no frames.
std::string words_of(const std::string& line) {
  static const std::regex frame(R"(\[0x[0-9a-f]+\+0x[0-9a-f]+\])");
  std::istringstream in(std::regex_replace(line, frame, ""));
  std::string out;
  for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

bool begins_an_op(const std::string& line) {
  static const std::regex number(R"(^ +[0-9]+ .*)");
  return std::regex_match(line, number);
}

// Ops of the golden body by number.
std::map<std::string, std::string> golden_ops() {
  std::istringstream body(
      between(source_text("tests/golden/plans/streaming.txt"), "\nsegment body ", "\nsegment "));
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(body, line);) {
    if (!begins_an_op(line)) continue;
    const std::string words = words_of(line);
    out[words.substr(0, words.find(' '))] = words;
  }
  return out;
}

// Ops of the page, in its order. A line that begins with no number continues the op above; one that is not
// indented names a body.
std::vector<std::string> shown_ops() {
  const std::string section = between(source_text("ARCHITECTURE.md"), "\n## The life of one step\n", "\n## ");
  std::istringstream block(between(section, "\n```\n", "\n```\n"));
  std::vector<std::string> out;
  for (std::string line; std::getline(block, line);) {
    if (begins_an_op(line))
      out.push_back(words_of(line));
    else if (line.starts_with(' ') && !out.empty())
      out.back() += " " + words_of(line);
  }
  return out;
}

TEST(Architecture, LifeOfOneStepShowsOpsOfTheGoldenPlan) {
  const std::map<std::string, std::string> golden = golden_ops();
  const std::vector<std::string> shown = shown_ops();
  EXPECT_GE(shown.size(), 15u);
  for (const std::string& op : shown) {
    const std::string number = op.substr(0, op.find(' '));
    ASSERT_THAT(golden, Contains(Key(number)));
    EXPECT_EQ(op, golden.at(number))
        << "ARCHITECTURE.md shows another op than streaming.txt: change the page";
  }
}

// The steps below the block say which ops they are about: "op 30", "ops 40 and 41", "ops 32 to 35".
TEST(Architecture, StepsOfTheLifeNameOpsThatTheBlockShows) {
  const std::string section = between(source_text("ARCHITECTURE.md"), "\n## The life of one step\n", "\n## ");
  std::map<std::string, std::string> shown;
  for (const std::string& op : shown_ops()) shown[op.substr(0, op.find(' '))] = op;
  static const std::regex ops(R"(\bops?\s+([0-9]+(?:(?:,|\s+and|\s+to)\s+[0-9]+)*))"), number("[0-9]+");
  size_t named = 0;
  for (std::sregex_iterator at(section.begin(), section.end(), ops), end; at != end; ++at) {
    const std::string numbers = (*at)[1];
    for (std::sregex_iterator n(numbers.begin(), numbers.end(), number); n != end; ++n) {
      EXPECT_THAT(shown, Contains(Key(n->str()))) << at->str();
      ++named;
    }
  }
  EXPECT_GE(named, 15u);
}

}  // namespace tidepool::architecture_test
