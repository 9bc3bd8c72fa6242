#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool {

void CheckValue::print() const {
  switch (kind_) {
    case Kind::boolean:
      std::fputs(signed_ != 0 ? "true" : "false", stderr);
      break;
    case Kind::signed_number:
      std::fprintf(stderr, "%lld", signed_);
      break;
    case Kind::unsigned_number:
      std::fprintf(stderr, "%llu", unsigned_);
      break;
    case Kind::floating:
      std::fprintf(stderr, "%.17g", floating_);
      break;
    case Kind::text:
      std::fwrite(text_.data(), 1, text_.size(), stderr);
      break;
    case Kind::pointer:
      std::fprintf(stderr, "%p", pointer_);
      break;
  }
}

void check_failed(const char* file, int line, const char* condition, const char* names,
                  std::initializer_list<CheckValue> values) {
  std::fprintf(stderr, "tidepool: %s:%d: CHECK(%s) failed\n", file, line, condition);
  if (values.size() > 0) {
    std::fprintf(stderr, "  %s =", names);
    for (const CheckValue& value : values) {
      std::fputc(' ', stderr);
      value.print();
    }
    std::fputc('\n', stderr);
  }
  std::fputs("  This is a bug in Tidepool. Please report it with the command and config.yaml.\n", stderr);
  std::abort();
}

}  // namespace tidepool
