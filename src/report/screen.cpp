// Detects what the terminal can show, and formats text of known width.
#include "report/screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "report/print_text.h"

namespace tidepool {
namespace {

constexpr u32 columns_min = 40;
constexpr u32 columns_max = 120;  // longer lines are hard to read

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

// The first of the three that is set decides, as in setlocale.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(environment(name));
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// RETURNS: the value of COLUMNS; 0 if not set.
u32 columns_asked() {
  const int asked = std::atoi(std::string(environment("COLUMNS")).c_str());
  return asked > 0 ? static_cast<u32>(asked) : 0;
}

// Bytes 10xxxxxx are continuation bytes of a code point.
bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

Screen detect_screen(int fd) {
  Screen screen;
  const bool dumb = environment("TERM") == "dumb";
  const bool tty = ::isatty(fd) == 1;
  screen.tty = tty && !dumb;
  screen.color = screen.tty && environment("NO_COLOR").empty();
  screen.unicode = locale_is_utf8() && !dumb;
  if (const u32 asked = columns_asked(); asked > 0)
    screen.columns = std::clamp(asked, columns_min, columns_max);
  renew_size(screen, fd);
  return screen;
}

void renew_size(Screen& screen, int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_row > 0) screen.rows = size.ws_row;
  if (size.ws_col == 0) return;
  // COLUMNS may be too large: the shell may have exported it from a wider terminal.
  const u32 asked = columns_asked(), there = size.ws_col;
  screen.columns = std::clamp(asked > 0 ? std::min(asked, there) : there, columns_min, columns_max);
}

std::string rewritable_lines(const std::vector<std::string>& lines) {
  constexpr std::string_view wrap_off = "\x1b[?7l", wrap_on = "\x1b[?7h";
  std::string out = std::string(erase_lines).append(wrap_off);
  for (const std::string& line : lines) out.append(&line == lines.data() ? "" : "\n").append(line);
  out += '\r';
  if (lines.size() > 1) out += "\x1b[" + std::to_string(lines.size() - 1) + "A";
  return out.append(wrap_on);
}

std::string paint(const Screen& screen, Ink ink, std::string_view text) {
  constexpr std::array<std::string_view, 9> codes = {"", "1", "2", "31", "32", "33", "34", "35", "36"};
  const std::string_view code = codes[static_cast<u32>(ink)];
  if (!screen.color || code.empty() || text.empty()) return std::string(text);
  const auto sequence = [](std::string_view number) {
    return fmt::format("\x1b[{};{}m", number, control_mark());
  };
  return sequence(code).append(text).append(sequence("0"));
}

u32 display_width(std::string_view text) {
  u32 width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if (starts_code_point(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string pad_right(std::string text, u32 width) {
  const u32 have = display_width(text);
  if (have < width) text.append(width - have, ' ');
  return text;
}

std::string pad_left(std::string text, u32 width) {
  const u32 have = display_width(text);
  return have < width ? std::string(width - have, ' ') + text : text;
}

std::string repeat(std::string_view glyph, u32 times) {
  std::string out;
  for (u32 i = 0; i < times; ++i) out += glyph;
  return out;
}

std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator,
                                    u32 width, u32 indent) {
  std::vector<std::string> lines;
  std::string line;
  bool first = true;  // first item of its line
  for (const std::string& item : items) {
    const u32 needed = display_width(line) + display_width(item) + (first ? 0 : display_width(separator));
    if (!first && needed > width) {
      lines.push_back(std::move(line));
      line.assign(indent, ' ');
    } else if (!first) {
      line += separator;
    }
    line += item;
    first = false;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

namespace {

// Indentation of the lines after the first; at most half the width.
u32 text_begin(std::string_view line, u32 width) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t word_end = std::min(line.find(' ', begin), line.size());
  const std::size_t text = std::min(line.find_first_not_of(' ', word_end), line.size());
  const std::size_t at = text >= word_end + 2 && text < line.size() ? text : begin + 4;
  return static_cast<u32>(std::min<std::size_t>(at, width / 2));
}

}  // namespace

std::vector<std::string> wrap_words(std::string_view text, u32 width, u32 indent) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrap_items(words, " ", width, indent);
}

std::string wrap_lines(std::string_view text, u32 width) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    for (const std::string& part : wrap_words(line, width, text_begin(line, width))) out += part + "\n";
    if (line.empty()) out += "\n";
  }
  return out;
}

std::string bar(const Screen& screen, double fraction, u32 width, Ink ink) {
  if (width == 0) return "";
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  if (!screen.unicode) {
    u32 full = static_cast<u32>(std::lround(clamped * width));
    if (clamped > 0) full = std::max(full, 1u);
    return paint(screen, ink, repeat("#", full)) + paint(screen, Ink::dim, repeat(".", width - full));
  }
  constexpr std::array<std::string_view, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  u32 steps = static_cast<u32>(std::lround(clamped * width * 8));
  if (clamped > 0) steps = std::max(steps, 1u);
  const u32 used = (steps + 7) / 8;
  return paint(screen, ink, repeat("█", steps / 8) + std::string(eighths[steps % 8])) +
         paint(screen, Ink::dim, repeat("·", width - used));
}

}  // namespace tidepool
