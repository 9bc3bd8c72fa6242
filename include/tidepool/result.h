// The world's faults (file, config, disk, memory) travel as Result<T>; our own bugs stop at CHECK.
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tidepool {

// The value is the process's exit code.
enum class ErrorKind : int {
  internal = 1,
  usage = 2,         // command line or config
  does_not_fit = 3,  // budgets
  bad_input = 4,     // a data or model file
  corrupt_checkpoint = 5,
  io = 6,
  non_finite = 7,
  interrupted = 75,  // stopped by a signal, resumable
};

// A key of the config and a value for it, as one would type them.
struct Setting {
  std::string key, value;

  bool operator==(const Setting&) const = default;
};

// Settings that mend an error together.
struct Change {
  std::vector<Setting> settings;
  std::string remark;  // for people; may be empty

  bool operator==(const Change&) const = default;
};

// `message` names the file, key, offset or budget, and says what to do.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::vector<Change> changes = {};  // said by `message` too: the first is its advice, others do as well
};

// Asking an error for its value is our bug.
[[noreturn]] inline void throw_exception_from_error(const Error& e, const boost::source_location&) {
  throw std::logic_error("value() of an error: " + e.message);
}

template <class T>
class [[nodiscard]] Result : public boost::system::result<T, Error> {
 public:
  using boost::system::result<T, Error>::result;
};

inline int exit_code(const Error& e) { return static_cast<int>(e.kind); }

// TRY(expr): pass an error on. TRY_ASSIGN(auto x, expr): bind the value or pass the error on.
#define TIDEPOOL_CONCAT_(a, b) a##b
#define TIDEPOOL_CONCAT(a, b) TIDEPOOL_CONCAT_(a, b)
#define TRY(...)                                                                 \
  do {                                                                           \
    if (auto try_result = (__VA_ARGS__); !try_result) return try_result.error(); \
  } while (false)
#define TRY_ASSIGN_(tmp, decl, ...)        \
  auto tmp = (__VA_ARGS__);                \
  if (!tmp) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
#define TRY_ASSIGN(decl, ...) TRY_ASSIGN_(TIDEPOOL_CONCAT(try_, __LINE__), decl, __VA_ARGS__)

}  // namespace tidepool
