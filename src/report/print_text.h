// Prints text for people: the only place where such text leaves the program.
//
// Names, paths, tokens and messages come from files and may hold any bytes, and a terminal obeys control
// characters: they could move the cursor, rewrite lines, or type into the shell. So text_to_show() escapes
// every control character except line feed and tab (\x1b), and every byte that is not UTF-8. Colour sequences
// of our own carry a mark that no file can guess (control_mark). text_to_show() recognizes them by the mark
// and removes it.
//
// The live view writes its own cursor movements around text that text_to_show() has escaped.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace tidepool {

// RETURNS: 18 random digits, different in each process: the last parameter of each colour sequence of
// paint().
const std::string& control_mark();

std::string text_to_show(std::string_view);

// RETURNS: false if the stream cannot be written; errno says why.
bool try_print_text(std::FILE*, std::string_view);
// Throws std::system_error if the stream cannot be written: the program can then only report it and end.
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
