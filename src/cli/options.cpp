#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <utility>

#include "base/text/nearest.h"
#include "base/text/value_text.h"

namespace tidepool {

namespace {

namespace po = boost::program_options;

constexpr const char* positional_name = " ";  // no user can type this as an option

po::options_description describe(std::span<const Option> options) {
  po::options_description out;
  for (const Option& option : options) {
    const std::string name(option.name);
    if (option.value.empty()) {
      out.add_options()(name.c_str(), "");
    } else {
      out.add_options()(name.c_str(), po::value<std::string>(), "");
    }
  }
  out.add_options()(positional_name, po::value<std::vector<std::string>>(), "");
  return out;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

const Option* find_option(std::span<const Option> options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

// Words with the options' own names: --max_new_tokens is --max-new-tokens, because most tools for models
// write underscores. Values of options, and words after "--", stay as they are.
std::vector<std::string> with_own_names(std::span<const std::string> words, std::span<const Option> options) {
  std::vector<std::string> out(words.begin(), words.end());
  const auto end = std::ranges::find(out, "--");
  bool is_value = false;
  for (auto word = out.begin(); word != end; ++word) {
    if (std::exchange(is_value, false) || !word->starts_with("--")) continue;
    const size_t equals = std::min(word->find('='), word->size());
    const Option* option = find_option(options, with_dashes(word->substr(2, equals - 2)));
    if (option == nullptr) continue;
    word->replace(2, equals - 2, option->name);
    is_value = equals == word->size() && !option->value.empty();
  }
  return out;
}

// Message about an unknown option. It quotes the word as typed, because the parser reports -o for "-output",
// and some options without dashes.
std::string unknown_option(const po::unknown_option& e, std::span<const Option> options,
                           std::span<const std::string> words) {
  const std::string seen = e.get_option_name();
  const auto typed =
      std::ranges::find_if(words, [&](const std::string& word) { return word.starts_with(seen); });
  const std::string quoted = typed == words.end() ? seen : typed->substr(0, typed->find('='));
  std::string name = quoted;
  name.erase(0, name.find_first_not_of('-'));
  std::vector<std::string_view> known;
  for (const Option& option : options) known.push_back(option.name);
  const std::string_view near = nearest(with_dashes(name), known);
  return fmt::format("unknown option '{}'{}", quoted,
                     near.empty() ? "" : fmt::format("; did you mean '--{}'?", near));
}

// Message about an option without the value that it needs, or with a value that it does not take.
std::string wrong_value(const po::invalid_syntax& e, std::span<const Option> options) {
  std::string name = e.get_option_name();
  name.erase(0, name.find_first_not_of('-'));
  const Option* option = find_option(options, name);
  if (option == nullptr) return e.what();
  if (option->value.empty()) return fmt::format("--{} takes no value: write --{}", name, name);
  return fmt::format("--{} needs a value: write --{} {}", name, name, option->value);
}

template <class T>
Result<T> named(std::string_view name, std::string_view text, Result<T> value) {
  if (value) return value;
  return Error{ErrorKind::usage, fmt::format("--{}: '{}' {}", name, text, value.error().message)};
}

}  // namespace

Result<Arguments> Arguments::parse(std::span<const Option> options, std::span<const std::string> words) {
  Arguments out;
  for (const Option& option : options) {
    if (!option.preset.empty()) out.values_[std::string(option.name)] = option.preset;
  }
  po::positional_options_description anything;
  anything.add(positional_name, -1);
  const po::options_description known = describe(options);
  // No guessing: if `--res` meant `--resume` today, it would be ambiguous once `--reset` exists.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    const std::vector<std::string> args = with_own_names(words, options);
    const auto parsed = po::command_line_parser(args).options(known).positional(anything).style(style).run();
    for (const auto& option : parsed.options) {
      if (option.string_key == positional_name) {
        out.positional_.insert(out.positional_.end(), option.value.begin(), option.value.end());
      } else {
        out.given_.push_back(option.string_key);
        out.values_[option.string_key] = option.value.empty() ? "" : option.value.back();
      }
    }
  } catch (const po::unknown_option& e) {
    return Error{ErrorKind::usage, unknown_option(e, options, words)};
  } catch (const po::invalid_syntax& e) {
    return Error{ErrorKind::usage, wrong_value(e, options)};
  } catch (const po::error& e) {
    return Error{ErrorKind::usage, e.what()};
  }
  return out;
}

std::string Arguments::text(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second;
}

Result<u64> Arguments::integer(std::string_view name) const {
  return named(name, text(name), parse_integer(text(name)));
}
Result<u32> Arguments::count(std::string_view name, const CountLimits& limits) const {
  TRY_ASSIGN(const u64 value, integer(name));
  if (value < limits.least)
    return usage_error(fmt::format("--{}: {} is too small; at least {}", name, value, limits.least));
  if (value > limits.most)
    return usage_error(fmt::format("--{}: {} is too large; at most {}", name, value, limits.most));
  return static_cast<u32>(value);
}
Result<double> Arguments::real(std::string_view name) const {
  return named(name, text(name), parse_real(text(name)));
}
Result<Bytes> Arguments::size(std::string_view name) const {
  return named(name, text(name), parse_size(text(name)));
}

Result<void> check_form(const Arguments& arguments, const Form& form) {
  for (const std::string& name : arguments.given()) {
    if (std::ranges::find(form.options, name) == form.options.end())
      return usage_error(fmt::format("--{}: 'tidepool {}' does not use it; leave it out", name, form.name));
  }
  const std::vector<std::string>& words = arguments.positional();
  if (words.size() <= form.words_max) return {};
  return usage_error(
      fmt::format("'{}': 'tidepool {}' does not use it; leave it out", words[form.words_max], form.name));
}

std::string options_help(std::span<const Option> options) {
  std::string out;
  for (const Option& option : options) {
    const std::string left = fmt::format("--{} {}", option.name, option.value);
    const std::string preset = option.preset.empty() ? "" : fmt::format(" ({})", option.preset);
    out += fmt::format("  {:<22} {}{}\n", left, option.help, preset);
  }
  return out;
}

}  // namespace tidepool
