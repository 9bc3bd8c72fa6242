// What the place that we print to can show, and text that knows its width there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct Screen {
  u32 columns = 80;
  u32 rows = 24;
  bool tty = false;  // lines may be rewritten
  bool color = false;
  bool unicode = false;  // else plain ASCII
};

// Of a file descriptor: a terminal's size, COLUMNS, NO_COLOR (no-color.org), TERM=dumb, and the locale.
Screen detect_screen(int fd);

// Asks the terminal of `fd` for its size anew, for it may have been resized. Where none can be asked the size
// stays as it is.
void renew_size(Screen&, int fd);

// Text that shows `lines` below the cursor and leaves the cursor at their beginning, in place of what stood
// there. A terminal that reflows its lines when it is resized moves the cursor with its line, so that
// `erase_lines` still removes all of them. Too long a line is cut, not wrapped: rows are always counted
// right.
std::string rewritable_lines(const std::vector<std::string>& lines);
inline constexpr std::string_view erase_lines = "\r\x1b[J";

enum class Ink : u8 { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

// Without colour: the text itself.
std::string paint(const Screen&, Ink, std::string_view text);

// Columns that `text` takes: code points, escape sequences not counted. No wide characters are printed.
u32 display_width(std::string_view text);
std::string pad_right(std::string text, u32 width);  // text, then blanks
std::string pad_left(std::string text, u32 width);
std::string repeat(std::string_view glyph, u32 times);

// Lines of at most `width` columns from items that are not broken; later lines start with `indent` blanks.
std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator,
                                    u32 width, u32 indent);

// `text`, broken at blanks as wrap_items does.
std::vector<std::string> wrap_words(std::string_view text, u32 width, u32 indent);

// Text of several lines, each broken so. A line goes on where its text begins: after its first word where two
// blanks or more set that off as a label, else four columns further in than the line itself.
std::string wrap_lines(std::string_view text, u32 width);

// A filled bar. `fraction` is clamped to [0, 1]; anything above 0 shows.
std::string bar(const Screen&, double fraction, u32 width, Ink);

}  // namespace tidepool
