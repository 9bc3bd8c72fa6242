// Screen describes what the output can show: size, colours, Unicode. Below are functions that fit text to its
// width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct Screen {
  u32 columns = 80;
  u32 rows = 24;
  bool tty = false;  // a terminal: lines may be rewritten
  bool color = false;
  bool unicode = false;  // if false, plain ASCII
};

// Detects the screen behind a file descriptor from the terminal's size, COLUMNS, NO_COLOR (no-color.org),
// TERM=dumb and the locale.
Screen detect_screen(int fd);

// Asks the terminal of `fd` for its size again, because it may have been resized. If `fd` is no terminal, the
// size does not change.
void renew_size(Screen&, int fd);

// RETURNS: text that erases everything from the cursor down, shows `lines` there, and leaves the cursor at
// their beginning. A terminal that reflows lines on a resize moves the cursor with its line, so `erase_lines`
// still removes all of them. A line that is too long is cut, not wrapped, so that the number of rows is
// always right.
std::string rewritable_lines(const std::vector<std::string>& lines);
inline constexpr std::string_view erase_lines = "\r\x1b[J";

enum class Ink : u8 { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

// RETURNS: `text` in the colour `Ink`; `text` unchanged if the screen has no colours.
std::string paint(const Screen&, Ink, std::string_view text);

// RETURNS: columns that `text` takes: code points, without escape sequences. We print no wide characters.
u32 display_width(std::string_view text);
std::string pad_right(std::string text, u32 width);  // `text`, then blanks
std::string pad_left(std::string text, u32 width);
std::string repeat(std::string_view glyph, u32 times);

// Fills lines of at most `width` columns with items, without breaking an item. Lines after the first start
// with `indent` blanks.
std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator,
                                    u32 width, u32 indent);

// Breaks `text` at blanks, with words as the items of wrap_items().
std::vector<std::string> wrap_words(std::string_view text, u32 width, u32 indent);

// Breaks each line of `text` like wrap_words(). Continuation lines are indented to where the line's text
// begins: if two or more blanks follow the first word, that word is a label and the text begins after it;
// else they are indented by four columns more than the line.
std::string wrap_lines(std::string_view text, u32 width);

// Draws a filled bar. `fraction` is clamped to [0, 1]; any value above 0 is visible.
std::string bar(const Screen&, double fraction, u32 width, Ink);

}  // namespace tidepool
