// Option describes a command's option as data, so that parsing, help and shell completion agree. Arguments
// wraps Boost.Program_options, whose header is too heavy to include everywhere.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct Option {
  std::string_view name;        // "resume", without dashes
  std::string_view value = "";  // its value's name in help, "auto|PATH"; empty: a flag
  std::string_view help = "";
  std::string_view preset = "";  // value if the option is not given; empty: none
};

inline constexpr u32 threads_max = 4096;  // as of machine.threads

struct CountLimits {
  u32 least = 0, most = std::numeric_limits<u32>::max();
};

class Arguments {
 public:
  // Parses `words`. Words that are not options go to positional(), in order.
  // RETURNS: ErrorKind::usage for an unknown option, with the nearest known option.
  static Result<Arguments> parse(std::span<const Option>, std::span<const std::string> words);

  const std::vector<std::string>& positional() const { return positional_; }
  const std::vector<std::string>& given() const { return given_; }          // names of options, in order
  bool has(std::string_view name) const { return values_.contains(name); }  // given or preset
  std::string text(std::string_view name) const;                            // "" if not given

  // RETURNS: the option's value as a number; ErrorKind::usage, with the option's name, if it is none.
  Result<u64> integer(std::string_view name) const;
  // As integer(); ErrorKind::usage, with the limit, if the number is outside of `limits`.
  Result<u32> count(std::string_view name, const CountLimits& limits = {}) const;
  Result<double> real(std::string_view name) const;
  Result<Bytes> size(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_, given_;
};

// Form is one of several ways to call a command, such as `tokenize CONFIG.yaml` or `bench disk`.
struct Form {
  std::string name;                           // for messages: "bench disk"
  std::span<const std::string_view> options;  // that this form uses
  size_t words_max = std::string_view::npos;  // that are not options
};

// RETURNS: ErrorKind::usage if a given option or word would be ignored by this form.
Result<void> check_form(const Arguments&, const Form&);

// RETURNS: help with one line per option, at most 80 columns wide.
std::string options_help(std::span<const Option>);

}  // namespace tidepool
