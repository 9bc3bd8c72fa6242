// CHECK(condition, values...) asserts our own invariants, in every build. Prints the values, then aborts.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>

namespace tidepool {

// CheckValue is a value that a failed CHECK prints. Nearly every file includes this header, so the formatting
// is in check.cpp.
class CheckValue {
 public:
  CheckValue(bool v) : kind_(Kind::boolean), signed_(v) {}
  CheckValue(std::signed_integral auto v) : kind_(Kind::signed_number), signed_(v) {}
  CheckValue(std::unsigned_integral auto v) : kind_(Kind::unsigned_number), unsigned_(v) {}
  CheckValue(std::floating_point auto v) : kind_(Kind::floating), floating_(static_cast<double>(v)) {}
  CheckValue(std::convertible_to<std::string_view> auto const& v) : kind_(Kind::text), text_(v) {}
  CheckValue(const void* v) : kind_(Kind::pointer), pointer_(v) {}

  void print() const;  // to standard error

 private:
  enum class Kind { boolean, signed_number, unsigned_number, floating, text, pointer };

  Kind kind_;
  union {
    long long signed_;
    unsigned long long unsigned_;
    double floating_;
    std::string_view text_;
    const void* pointer_;
  };
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* names,
                               std::initializer_list<CheckValue> values);

#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::tidepool::check_failed(__FILE__, __LINE__, #condition, #__VA_ARGS__, {__VA_ARGS__}); \
  } while (false)

}  // namespace tidepool
