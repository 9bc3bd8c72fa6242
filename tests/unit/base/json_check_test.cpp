// JSON checked piece by piece gets the same verdict for any division into pieces.
#include "base/json/json_check.h"

#include <gmock/gmock.h>

namespace tidepool::json_check_test {

using ::testing::HasSubstr;

std::string verdict(std::string_view text, size_t piece) {
  JsonCheck check(ErrorKind::bad_input, "a.json");
  for (size_t at = 0; at < text.size(); at += piece)
    if (const Result<void> fed = check.feed(text.substr(at, piece)); !fed) return fed.error().message;
  const Result<void> done = check.finish();
  return done ? "" : done.error().message;
}

TEST(JsonCheck, GivesTheSameAnswerForPiecesOfAnySize) {
  for (const size_t piece : {1, 2, 3, 7, 1000}) {
    for (const char* good :
         {"{}", "[]\n", " {\"a\": [1, -2.5e3, true, null, \"\\u00e9x\"], \"b\": {}} \n\n", "1", "\"x\""})
      EXPECT_EQ(verdict(good, piece), "") << good << " " << piece;
    for (const char* bad : {"", " ", "{", "{\"a\": 1", "{\"a\" 1}", "{}}", "{} x", "[1,]", "tru", "\"x"})
      EXPECT_THAT(verdict(bad, piece), HasSubstr("a.json: not valid JSON at byte ")) << bad << " " << piece;
  }
}

}  // namespace tidepool::json_check_test
