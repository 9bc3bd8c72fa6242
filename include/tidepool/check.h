// CHECK(condition, values...): our own invariants, on in every build. Prints the values, then aborts.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tidepool {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* names,
                               const std::string& values);

template <class... T>
std::string check_values(const T&... values) {
  std::string out;
  ((out += fmt::format("{} ", values)), ...);
  return out;
}

#define CHECK(condition, ...)                                                \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::tidepool::check_failed(__FILE__, __LINE__, #condition, #__VA_ARGS__, \
                               ::tidepool::check_values(__VA_ARGS__));       \
  } while (false)

}  // namespace tidepool
