#include "base/check.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/write_within.h"

namespace tidepool {

namespace {

// CheckText collects the message of a failed CHECK. It allocates nothing, and leaves out what is too long.
class CheckText {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int length = std::vsnprintf(text_.data() + size_, text_.size() - size_, format, values);
    va_end(values);
    if (length > 0) size_ = std::min(size_ + static_cast<size_t>(length), text_.size() - 1);
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 4096> text_{};
  size_t size_ = 0;
};

CheckText check_message;
std::atomic<bool> check_is_failing = false;

}  // namespace

void CheckValue::print() const {
  switch (kind_) {
    case Kind::boolean:
      return check_message.add("%s", signed_ != 0 ? "true" : "false");
    case Kind::signed_number:
      return check_message.add("%lld", signed_);
    case Kind::unsigned_number:
      return check_message.add("%llu", unsigned_);
    case Kind::floating:
      return check_message.add("%.17g", floating_);
    case Kind::text:
      return check_message.add("%.*s", static_cast<int>(std::min<size_t>(text_.size(), 1000)), text_.data());
    case Kind::pointer:
      return check_message.add("%p", pointer_);
  }
}

void check_failed(const char* file, int line, const char* condition, const char* names,
                  std::initializer_list<CheckValue> values) {
  while (check_is_failing.exchange(true)) ::pause();  // another thread is ending the process
  check_message.add("tidepool: %s:%d: CHECK(%s) failed\n", file, line, condition);
  if (values.size() > 0) {
    check_message.add("  %s =", names);
    for (const CheckValue& value : values) {
      check_message.add(" ");
      value.print();
    }
    check_message.add("\n");
  }
  // Not by stdio, which would wait for a reader for ever. In two parts: a long condition leaves no room.
  write_within(STDERR_FILENO, check_message.text());
  write_within(STDERR_FILENO,
               "  This is a bug in Tidepool. Please report it with the command and config.yaml.\n");
  std::abort();
}

}  // namespace tidepool
