// Options of a command as data, so that parsing, help and shell completion agree. Wraps
// Boost.Program_options, which is too heavy a header to spread.
#pragma once

#include <functional>
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
  std::string_view value = "";  // what its value is called in help, "auto|PATH"; empty: a flag
  std::string_view help = "";
  std::string_view preset = "";  // value where the option is not given; empty: none
};

class Arguments {
 public:
  // Anything but options ends up in positional(), in order. ErrorKind::usage, with the nearest option.
  static Result<Arguments> parse(std::span<const Option>, std::span<const std::string> words);

  const std::vector<std::string>& positional() const { return positional_; }
  bool has(std::string_view name) const { return values_.contains(name); }  // given or preset
  std::string text(std::string_view name) const;                            // "" if not there

  // The option as a number; ErrorKind::usage names the option.
  Result<u64> integer(std::string_view name) const;
  Result<double> real(std::string_view name) const;
  Result<Bytes> size(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_;
};

// One line an option, at most 80 columns wide.
std::string options_help(std::span<const Option>);

}  // namespace tidepool
