// The terminal's edge: the one place where text leaves the program for people to read.
//
// Names, paths, tokens and messages come from files and may hold anything, and a terminal obeys control
// characters: they could move the cursor, rewrite lines, or type into the shell. So every control character
// but line feed and tab is shown as an escape (\x1b), and so is every byte that is not UTF-8. Colours of our
// own carry a mark that no file can guess (control_mark), by which the edge knows them; it takes the mark
// out.
//
// The live view writes cursor movements of its own, around text that has gone through text_to_show.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace tidepool {

// 18 random digits, others in each process: the last parameter of each colour sequence of paint().
const std::string& control_mark();

std::string text_to_show(std::string_view);

// False where the stream takes no more; errno says why.
bool try_print_text(std::FILE*, std::string_view);
// Throws std::system_error where the stream takes no more: nothing is left to be done then but to say so.
void print_shown(std::FILE*, std::string_view);

template <class... T>
void print_text(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  print_shown(to, fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void print_text(fmt::format_string<T...> format, T&&... values) {
  print_shown(stdout, fmt::format(format, std::forward<T>(values)...));
}

}  // namespace tidepool
