// Item "raw escape bytes from files never reach the terminal".
#include "report/print_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <iterator>
#include <set>

#include "report/screen.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::print_text_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr Screen colored{.columns = 80, .tty = true, .color = true, .unicode = true};

TEST(PrintText, ShowsControlCharactersInsteadOfObeyingThem) {
  struct Case {
    std::string from, shown;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"plain\ttext\n", "plain\ttext\n"},
           {"größe ▁ 漢 😀", "größe ▁ 漢 😀"},
           {"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
           {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},  // as paint() used to write
           {"over\rwritten\x08", "over\\x0dwritten\\x08"},
           {std::string("nul\0x", 5), "nul\\x00x"},
           {"\x7f", "\\x7f"},
           {"\xc2\x9b"
            "2J",
            "\\xc2\\x9b"
            "2J"},  // U+009B begins a sequence, too
           {"\x9b"
            "2J",
            "\\x9b"
            "2J"},
           {"caf\xe9", "caf\\xe9"},     // Latin-1
           {"\xe2\x96", "\\xe2\\x96"},  // cut off
           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
           {"\xc2", "\\xc2"},
           {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
       })
    EXPECT_EQ(text_to_show(c.from), c.shown);
}

TEST(PrintText, ColoursOfOurOwnPassAndThoseOfFilesDoNot) {
  const std::string painted = paint(colored, Ink::red, "name\x1b[32m");
  EXPECT_EQ(text_to_show(painted), "\x1b[31mname\\x1b[32m\x1b[0m");
  EXPECT_EQ(display_width(paint(colored, Ink::bold, "four")), 4u);
  // Guessing the mark means guessing 18 digits.
  EXPECT_EQ(control_mark().size(), 18u);
  EXPECT_EQ(text_to_show("\x1b[31;000000000000000000m"), "\\x1b[31;000000000000000000m");
}

// Finds sources that print without print_text. The exceptions write only cursor movements and literals.
TEST(PrintText, NothingIsPrintedBesideIt) {
  const std::set<std::string> excepted = {"print_text.cpp", "print_text.h", "generate_command.cpp"};
  u32 files = 0;
  for (const char* folder : {"src", "io", "include", "kernels", "chunk_manager"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_file("")) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      ++files;
      if (excepted.contains(entry.path().filename())) continue;
      const std::string text = test::file_text(entry.path());
      for (const char* call :
           {"fmt::print(", "printf(std", "fprintf(", "puts(\"", "fputs(", "std::cout", "std::cerr"})
        EXPECT_EQ(text.find(call), std::string::npos) << entry.path() << " calls " << call;
    }
  EXPECT_GT(files, 300u);
}

}  // namespace tidepool::print_text_test
