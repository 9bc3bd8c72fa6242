// Screen describes what the output device can show. Helpers format text to its width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct Screen {
  u32 columns = 80;
  u32 rows = 24;
  bool tty = false;  // true: lines may be rewritten
  bool color = false;
  bool unicode = false;  // false: plain ASCII
};

// Detects the screen of a file descriptor from the terminal's size, COLUMNS, NO_COLOR (no-color.org),
// TERM=dumb, and the locale.
Screen detect_screen(int fd);

// Asks the terminal of `fd` for its size again, because it may have been resized. Keeps the size if it cannot
// be asked.
void renew_size(Screen&, int fd);

// Text that shows `lines` in place of the previous lines, and leaves the cursor at the first of them. A
// terminal that reflows lines when resized moves the cursor with its line, so `erase_lines` still removes
// them all. A line that is too long is cut, not wrapped, so that the count of rows stays right.
std::string rewritable_lines(const std::vector<std::string>& lines);
inline constexpr std::string_view erase_lines = "\r\x1b[J";

enum class Ink : u8 { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

// Without colour: the text unchanged.
std::string paint(const Screen&, Ink, std::string_view text);

// Width of `text` in columns: its code points without escape sequences. Wide characters are never printed.
u32 display_width(std::string_view text);
std::string pad_right(std::string text, u32 width);  // `text`, then blanks
std::string pad_left(std::string text, u32 width);
std::string repeat(std::string_view glyph, u32 times);

// Lines of at most `width` columns. Items are never broken; later lines start with `indent` blanks.
std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator,
                                    u32 width, u32 indent);

// Breaks `text` at blanks, as wrap_items does.
std::vector<std::string> wrap_words(std::string_view text, u32 width, u32 indent);

// Wraps each line of a text. Continuation lines are indented to the text behind the first word, if two or
// more blanks set that word off as a label; else by four columns more than the line.
std::string wrap_lines(std::string_view text, u32 width);

// A filled bar. `fraction` is clamped to [0, 1]; any value above 0 is visible.
std::string bar(const Screen&, double fraction, u32 width, Ink);

}  // namespace tidepool
