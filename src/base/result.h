// Result<T> carries the world's faults (file, config, disk, memory); our own bugs stop at CHECK.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tidepool {

// Kinds of error. The number is the process's exit code.
enum class ErrorKind : int {
  internal = 1,
  usage = 2,         // command line or config
  does_not_fit = 3,  // budgets
  bad_input = 4,     // a data or model file
  corrupt_checkpoint = 5,
  io = 6,
  non_finite = 7,
  interrupted = 75,  // stopped by a signal, or another node failed; resumable
};

// Setting is a key of the config with its value, as a user would type them.
struct Setting {
  std::string key, value;

  bool operator==(const Setting&) const = default;
};

// Change is a set of settings that fix an error together.
struct Change {
  std::vector<Setting> settings;
  std::string remark;  // for people; may be empty

  bool operator==(const Change&) const = default;
};

// `message` names the file, key, offset or budget, and says what to do.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::vector<Change> changes = {};  // alternatives, also in `message`; the first is its advice
};

inline Error usage_error(std::string message) { return {ErrorKind::usage, std::move(message)}; }
inline Error bad_input(std::string message) { return {ErrorKind::bad_input, std::move(message)}; }

// Reading the value of an error is our bug. Throws std::logic_error with the message.
[[noreturn]] void throw_value_of_error(const Error&);

// Result holds a value, or the error that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result() : content_(std::in_place_index<0>) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}
  template <class U = T>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, Result>) Result(U&& value)
      : content_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return checked(), *std::get_if<0>(&content_); }
  const T& value() const& { return checked(), *std::get_if<0>(&content_); }
  T value() && { return checked(), std::move(*std::get_if<0>(&content_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: no value.
  const Error& error() const& { return std::get<1>(content_); }
  Error error() && { return std::get<1>(std::move(content_)); }

  friend bool operator==(const Result&, const Result&) = default;

 private:
  void checked() const {
    if (!has_value()) throw_value_of_error(error());
  }

  std::variant<T, Error> content_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (error_) throw_value_of_error(*error_);
  }

  // REQUIRES: no value.
  const Error& error() const& { return error_.value(); }
  Error error() && { return std::move(error_).value(); }

 private:
  std::optional<Error> error_;
};

inline int exit_code(const Error& e) { return static_cast<int>(e.kind); }

// TRY(expr): return the error, if any. TRY_ASSIGN(auto x, expr): bind the value or return the error.
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
