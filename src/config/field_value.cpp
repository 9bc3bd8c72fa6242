// Reads and writes values of schema fields, and names their types.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/overloaded.h"
#include "base/text/nearest.h"
#include "base/text/value_text.h"
#include "config/schema.h"

namespace tidepool {

namespace {

// A larger most value is left out of the range's text: it only keeps sums from overflowing.
constexpr double most_in_words = 1e9;

// Calls `f` with a pointer to the field's value.
template <class F>
auto visit_value(const Field& field, Config& config, F&& f) {
  return std::visit([&](auto ref) { return f(ref(config)); }, field.ref);
}

Result<void> check_range(const Field& field, double value) {
  if (field.range.contains(value)) return {};
  if (value > field.range.most && field.range.most >= most_in_words)
    return reason(fmt::format("is out of range; it must be at most {}", format_real(field.range.most)));
  return reason(fmt::format("is out of range; it must be {}", range_text(field)));
}

Result<size_t> choice_index(const Field& field, std::string_view text) {
  for (const auto& [alias, choice] : field.choice_aliases)
    if (text == alias) text = choice;
  const auto at = std::ranges::find(field.choices, text);
  if (at != field.choices.end()) return static_cast<size_t>(at - field.choices.begin());
  return reason(
      fmt::format("is not one of {}{}", fmt::join(field.choices, ", "), did_you_mean(text, field.choices)));
}

template <class Integer>
Result<void> set_integer(const Field& field, Integer* to, std::string_view text) {
  if (field.automatic && (text == "auto" || text.empty())) {
    *to = static_cast<Integer>(*field.automatic);
    return {};
  }
  TRY_ASSIGN(const u64 value, parse_integer(text));
  if (value > std::numeric_limits<Integer>::max()) return reason("is too large");
  TRY(check_range(field, static_cast<double>(value)));
  *to = static_cast<Integer>(value);
  return {};
}

Result<void> set_size(const Field& field, Bytes* to, std::string_view text) {
  if (field.automatic && (text == "auto" || text.empty())) {
    *to = Bytes{*field.automatic};
    return {};
  }
  TRY_ASSIGN(*to, parse_size(text));
  return {};
}

Result<void> set_real(const Field& field, double* to, std::string_view text) {
  if (field.automatic && (text == "auto" || text.empty())) {
    *to = static_cast<double>(*field.automatic);
    return {};
  }
  TRY_ASSIGN(const double value, parse_real(text));
  TRY(check_range(field, value));
  *to = value;
  return {};
}

Result<double> parse_number(double, std::string_view text) { return parse_real(text); }
Result<u32> parse_number(u32, std::string_view text) {
  TRY_ASSIGN(const u64 value, parse_integer(text));
  if (value > std::numeric_limits<u32>::max()) return reason("is too large");
  return static_cast<u32>(value);
}

// Parses "0.7, 0.3" or "[1, 2]"; an empty text is an empty list.
template <class Number>
Result<void> set_numbers(std::vector<Number>* to, std::string_view text) {
  std::vector<Number> numbers;
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    TRY_ASSIGN(const Number number, parse_number(Number{}, one));
    numbers.push_back(number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  *to = std::move(numbers);
  return {};
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string real_yaml(const Field& field, double value) {
  const bool automatic = field.automatic && value == static_cast<double>(*field.automatic);
  return automatic ? "auto" : format_real(value);
}

std::string integer_yaml(const Field& field, u64 value) {
  return field.automatic == value ? "auto" : fmt::format("{}", value);
}

}  // namespace

Result<void> set_value(const Field& field, Config& config, std::string_view text) {
  return visit_value(field, config,
                     Overloaded{
                         [&](u32* to) { return set_integer(field, to, text); },
                         [&](u64* to) { return set_integer(field, to, text); },
                         [&](Bytes* to) { return set_size(field, to, text); },
                         [&](double* to) { return set_real(field, to, text); },
                         [&](bool* to) -> Result<void> {
                           TRY_ASSIGN(*to, parse_boolean(text));
                           return {};
                         },
                         [&](std::string* to) -> Result<void> {
                           if (!field.choices.empty()) TRY(choice_index(field, text));
                           *to = text;
                           return {};
                         },
                         [&](std::vector<std::string>* to) -> Result<void> {
                           if (text.empty() || (text == "[]" && field.required)) return reason("is empty");
                           to->clear();
                           if (text != "[]") to->emplace_back(text);
                           return {};
                         },
                         [&](std::vector<double>* to) -> Result<void> { return set_numbers(to, text); },
                         [&](std::vector<u32>* to) -> Result<void> { return set_numbers(to, text); },
                         [&](ChoiceRef to) -> Result<void> {
                           TRY_ASSIGN(const size_t at, choice_index(field, text));
                           *to.value = static_cast<u8>(at);
                           return {};
                         },
                     });
}

std::string value_yaml(const Field& field, const Config& config) {
  // The cast is safe: the value is only read.
  return visit_value(field, const_cast<Config&>(config),
                     Overloaded{
                         [&](u32* v) { return integer_yaml(field, *v); },
                         [&](u64* v) { return integer_yaml(field, *v); },
                         [&](Bytes* v) { return field.automatic == v->value ? "auto" : format_size(*v); },
                         [&](double* v) { return real_yaml(field, *v); },
                         [&](bool* v) { return std::string(*v ? "true" : "false"); },
                         [&](std::string* v) { return field.choices.empty() ? in_quotes(*v) : *v; },
                         [&](std::vector<std::string>* v) {
                           std::vector<std::string> items;
                           std::ranges::transform(*v, std::back_inserter(items), in_quotes);
                           return fmt::format("[{}]", fmt::join(items, ", "));
                         },
                         [&](std::vector<double>* v) {
                           std::vector<std::string> items;
                           std::ranges::transform(*v, std::back_inserter(items), format_real);
                           return fmt::format("[{}]", fmt::join(items, ", "));
                         },
                         [&](std::vector<u32>* v) { return fmt::format("[{}]", fmt::join(*v, ", ")); },
                         [&](ChoiceRef v) { return std::string(field.choices[*v.value]); },
                     });
}

bool same_value(const Field& a, const Field& b) {
  Config config;
  const auto address = Overloaded{[](ChoiceRef v) -> const void* { return v.value; },
                                  [](const auto* v) -> const void* { return v; }};
  return visit_value(a, config, address) == visit_value(b, config, address);
}

std::string default_text(const Field& field) {
  if (field.required) return "required";
  return value_yaml(field, Config{.model = default_model(example_family(field))});
}

std::string type_name(const Field& field) {
  if (!field.choices.empty()) return fmt::format("{}", fmt::join(field.choices, " | "));
  Config config;
  return visit_value(field, config,
                     Overloaded{
                         [](u32*) { return std::string("integer"); },
                         [](u64*) { return std::string("integer"); },
                         [](Bytes*) { return std::string("size"); },
                         [](double*) { return std::string("number"); },
                         [](bool*) { return std::string("true | false"); },
                         [](std::string*) { return std::string("text"); },
                         [](std::vector<std::string>*) { return std::string("list of text"); },
                         [](std::vector<double>*) { return std::string("list of numbers"); },
                         [](std::vector<u32>*) { return std::string("list of integers"); },
                         [](ChoiceRef) { return std::string("choice"); },
                     });
}

std::string range_text(const Field& field) {
  const bool integer = std::holds_alternative<u32* (*)(Config&)>(field.ref) ||
                       std::holds_alternative<u64* (*)(Config&)>(field.ref);
  if (!integer && !std::holds_alternative<double* (*)(Config&)>(field.ref)) return "";
  if (field.range.most >= most_in_words) return fmt::format("at least {}", format_real(field.range.least));
  if (field.range.open) {
    return fmt::format("at least {} and below {}", format_real(field.range.least),
                       format_real(field.range.most));
  }
  // Prints integers in full: 16777216, not 1.6777216e+07.
  if (integer) return fmt::format("{:.0f} to {:.0f}", field.range.least, field.range.most);
  return fmt::format("{} to {}", format_real(field.range.least), format_real(field.range.most));
}

}  // namespace tidepool
