#include "report/print_text.h"

#include <cerrno>
#include <random>
#include <system_error>

#include "base/types.h"
#include "report/screen.h"
#include "report/standard_writers.h"

namespace tidepool {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RETURNS: length of one of our own colour sequences at the start of `text`, as paint() makes it:
// "\x1b[31;MARKm"; 0 if there is none.
size_t own_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  size_t at = 2;
  while (at < text.size() && is_digit(text[at])) ++at;
  const std::string& mark = control_mark();
  if (text.substr(at, 1) != ";" || text.substr(at + 1, mark.size()) != mark) return 0;
  at += 1 + mark.size();
  return text.substr(at, 1) == "m" ? at + 1 : 0;
}

// RETURNS: length of the first character of `text`, if it is valid UTF-8 and not a control character; else 0.
size_t harmless_character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<u8>(text[i]) : u8{0}; };
  const u8 first = byte(0);
  if (first < 0x80) return first == '\n' || first == '\t' || (first >= 0x20 && first != 0x7f) ? 1 : 0;
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (first == 0xc2) return continues(1) && byte(1) >= 0xa0 ? 2 : 0;  // U+0080 to U+009F are controls
  if (first >= 0xc3 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool fine = (first != 0xe0 || byte(1) >= 0xa0) && (first != 0xed || byte(1) < 0xa0);
    return fine && continues(1) && continues(2) ? 3 : 0;
  }
  const bool fine = (first != 0xf0 || byte(1) >= 0x90) && (first != 0xf4 || byte(1) < 0x90);
  return first >= 0xf0 && first <= 0xf4 && fine && continues(1) && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

const std::string& control_mark() {
  static const std::string mark = [] {
    std::random_device device;
    const u64 random = u64{device()} << 32 | device();
    return fmt::format("{:018d}", random % 1'000'000'000'000'000'000);
  }();
  return mark;
}

std::string text_to_show(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t taken = harmless_character(text);
    if (taken > 0) {
      out += text.substr(0, taken);
    } else if (taken = own_sequence(text); taken > 0) {
      out += text.substr(0, taken - control_mark().size() - 2);
      out += 'm';
    } else {
      out += fmt::format("\\x{:02x}", static_cast<u8>(text[0]));
      taken = 1;
    }
    text.remove_prefix(taken);
  }
  return out;
}

bool try_print_text(std::FILE* to, std::string_view text) {
  const std::string shown = text_to_show(text);
  if (StreamWriter* const writer = writer_of(to); writer != nullptr) {
    writer->print(stream_of(to), shown);
    return true;
  }
  return std::fwrite(shown.data(), 1, shown.size(), to) == shown.size();
}

// Ignores EIO: the terminal is gone, and the run has been told to stop or continues without it.
void print_shown(std::FILE* to, std::string_view text) {
  if (!try_print_text(to, text) && errno != EIO && to != stderr)
    throw std::system_error(errno, std::generic_category(), "cannot write to a standard stream");
}

void draw_picture(std::FILE* to, const std::string& picture) {
  if (StreamWriter* const writer = writer_of(to); writer != nullptr)
    return writer->draw(stream_of(to), picture);
  std::fputs(picture.empty() ? std::string(erase_lines).c_str() : picture.c_str(), to);
  std::fflush(to);
}

}  // namespace tidepool
