#include "report/error_text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tidepool {
namespace {

constexpr u32 indent = 2;

bool is_ascii_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool begins_with_unit(std::string_view text) {
  constexpr std::array<std::string_view, 9> units = {"B",  "KiB", "MiB", "GiB", "TiB",
                                                     "TB", "s",   "ms",  "GB/s"};
  const std::string_view word = text.substr(0, text.find_first_of(" .,:;)"));
  return std::ranges::find(units, word) != units.end();
}

// Pieces of a line that must not be broken.
std::vector<std::string> pieces_of(std::string_view line) {
  std::vector<std::string> pieces(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char before = i > 0 ? line[i - 1] : ' ';
    const std::string_view after = line.substr(i + 1);
    if (line[i] == '\'' && quoted)
      quoted = !after.empty() && is_letter(after[0]);  // the quote in 'the disk's' does not end it
    else if (line[i] == '\'')
      quoted = !is_letter(before) && after.find('\'') != std::string_view::npos;
    if (line[i] == ' ' && !quoted && !(is_ascii_digit(before) && begins_with_unit(after)))
      pieces.emplace_back();
    else
      pieces.back() += line[i];
  }
  return pieces;
}

}  // namespace

std::string error_text(std::string_view message, const Screen& screen) {
  if (!screen.tty) return std::string(message);
  std::string out;
  for (std::size_t begin = 0; begin <= message.size();) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    for (const std::string& line :
         wrap_items(pieces_of(message.substr(begin, end - begin)), " ", screen.columns, indent))
      out += (out.empty() ? "" : "\n") + line;
    begin = end + 1;
  }
  return out;
}

}  // namespace tidepool
