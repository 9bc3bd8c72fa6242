// The terminal's edge: the only place that prints text for people.
//
// Names, paths, tokens and messages come from files and may contain anything, and a terminal obeys control
// characters: they could move the cursor, rewrite lines, or type into the shell. So every control character
// except line feed and tab is shown as an escape (\x1b), and so is every byte that is not UTF-8. Our own
// colours carry a mark that no file can guess (control_mark); the edge recognises them by it and removes it.
//
// The live view has its own cursor movements, around text that has passed through text_to_show.
//
// While writers run (standard_writers.h), nothing here waits for a reader, and a lost stream is no failure.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace tidepool {

// A random mark of 18 digits, different in each process: the last parameter of each colour sequence of
// paint().
const std::string& control_mark();

std::string text_to_show(std::string_view);

// REQUIRES: the picture that was drawn before, if any, is erased; or writers run, which see to it.
// RETURNS: false if the stream cannot be written; errno says why.
bool try_print_text(std::FILE*, std::string_view);
// Throws std::system_error if standard output cannot be written: only reporting this is left to do then. A
// lost standard error ends nothing: a run continues without its warnings.
void print_shown(std::FILE*, std::string_view);

// Draws `picture`, made by rewritable_lines(), in place of the one before; empty: only erases that one.
void draw_picture(std::FILE*, const std::string& picture);

template <class... T>
void print_text(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  print_shown(to, fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void print_text(fmt::format_string<T...> format, T&&... values) {
  print_shown(stdout, fmt::format(format, std::forward<T>(values)...));
}

}  // namespace tidepool
