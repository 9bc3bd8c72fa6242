// Methods of Python's str, dict and list that chat templates call.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

Error no_method(const Value& v, std::string_view name) {
  return fault(fmt::format("a {} has no method '{}' that Tidepool supports", type_name(v), name));
}

Value list_of(std::vector<std::string> parts) {
  List out;
  for (std::string& part : parts) out.emplace_back(std::move(part));
  return Value(std::move(out));
}

// Splits at white space, at most `count` times.
std::vector<std::string> words(std::string_view text, u64 count, bool from_end) {
  std::vector<std::string> out;
  text = strip(text);
  while (!text.empty() && count-- > 0) {
    std::string_view word, rest;
    u32 bytes = 1;
    if (from_end) {
      u64 begin = text.size();
      while (begin > 0) {
        const u64 before = last_code_point(text.substr(0, begin));
        if (is_space(code_point_at(text, before, &bytes))) break;
        begin = before;
      }
      word = text.substr(begin);
      rest = strip(text.substr(0, begin), Sides{.begin = false});
    } else {
      u64 end = 0;
      while (end < text.size() && !is_space(code_point_at(text, end, &bytes))) end += bytes;
      word = text.substr(0, end);
      rest = strip(text.substr(end), Sides{.end = false});
    }
    out.emplace_back(word);
    text = rest;
  }
  if (!text.empty()) out.emplace_back(text);
  if (from_end) std::ranges::reverse(out);
  return out;
}

std::vector<std::string> pieces(std::string_view text, std::string_view at, u64 count, bool from_end) {
  std::vector<std::string> out;
  while (count-- > 0) {
    const u64 found = from_end ? text.rfind(at) : text.find(at);
    if (found == text.npos) break;
    out.emplace_back(from_end ? text.substr(found + at.size()) : text.substr(0, found));
    text = from_end ? text.substr(0, found) : text.substr(found + at.size());
  }
  out.emplace_back(text);
  if (from_end) std::ranges::reverse(out);
  return out;
}

Result<Value> split(const std::string& text, const Arguments& a, bool from_end) {
  TRY(a.check({"sep", "maxsplit"}));
  TRY_ASSIGN(const i64 most, a.integer_or(1, "maxsplit", -1));
  const u64 count = most < 0 ? ~u64{0} : static_cast<u64>(most);
  const Value* at = a.get(0, "sep");
  if (at == nullptr || at->is_none()) return list_of(words(text, count, from_end));
  TRY_ASSIGN(const std::string between, a.text(0, "sep"));
  if (between.empty()) return fault("split: the separator is empty");
  return list_of(pieces(text, between, count, from_end));
}

Result<Value> stripped(const std::string& text, const Arguments& a, Sides sides) {
  TRY(a.check({"chars"}));
  const Value* given = a.get(0, "chars");
  if (given == nullptr || given->is_none()) return Value(strip(text, sides));
  TRY_ASSIGN(const std::string characters, a.text(0, "chars"));
  return Value(strip(text, characters, sides));
}

// startswith and endswith, with one text or a tuple of texts.
Result<Value> bounded(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({"prefix"}));
  const auto matches = [&](const std::string& part) {
    return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
  };
  const Value* given = a.get(0, "prefix");
  if (given && given->list()) {
    return Value(
        std::ranges::any_of(*given->list(), [&](const Value& v) { return v.text() && matches(*v.text()); }));
  }
  TRY_ASSIGN(const std::string part, a.text(0, "prefix"));
  return Value(matches(part));
}

// str.title(): a letter behind another letter becomes lower case, every other letter upper case.
std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    const bool letter = is_letter(code_point_at(text, at, &bytes));
    const std::string_view one = text.substr(at, bytes);
    out += !letter ? std::string(one) : inside ? lower(one) : capitalized(one);
    inside = letter;
    at += bytes;
  }
  return out;
}

Result<Value> search(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({"sub"}));
  TRY_ASSIGN(const std::string part, a.text(0, "sub"));
  if (name == "find") {
    const u64 found = text.find(part);
    return Value(found == text.npos
                     ? i64{-1}
                     : static_cast<i64>(count_code_points(std::string_view(text).substr(0, found))));
  }
  if (part.empty()) return Value(static_cast<i64>(count_code_points(text) + 1));
  i64 count = 0;
  for (u64 at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return Value(count);
}

template <class F>
bool all_code_points(std::string_view text, F&& f) {
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    if (!f(code_point_at(text, at, &bytes))) return false;
  }
  return !text.empty();
}

Result<Value> without_affix(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({"affix"}));
  TRY_ASSIGN(const std::string part, a.text(0, "affix"));
  if (name == "removeprefix") return Value(text.starts_with(part) ? text.substr(part.size()) : text);
  return Value(text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text);
}

Result<Value> case_of(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({}));
  if (name == "upper") return Value(upper(text));
  if (name == "lower") return Value(lower(text));
  return Value(name == "title" ? title(text) : capitalized(text));
}

Result<Value> text_method(const Value& v, std::string_view name, const Arguments& a) {
  const std::string& text = *v.text();
  if (name == "strip") return stripped(text, a, {});
  if (name == "lstrip") return stripped(text, a, {.end = false});
  if (name == "rstrip") return stripped(text, a, {.begin = false});
  if (name == "split" || name == "rsplit") return split(text, a, name == "rsplit");
  if (name == "startswith" || name == "endswith") return bounded(text, name, a);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return case_of(text, name, a);
  if (name == "find" || name == "count") return search(text, name, a);
  if (name == "removeprefix" || name == "removesuffix") return without_affix(text, name, a);
  if (name == "replace") return apply_filter("replace", v, a);
  if (name == "splitlines") {
    TRY(a.check({}));
    return list_of(lines_of(text));
  }
  if (name == "isdigit" || name == "isspace") {
    TRY(a.check({}));
    return Value(all_code_points(text, name == "isspace" ? is_space : is_digit));
  }
  if (name != "join") return no_method(v, name);
  TRY(a.check({"iterable"}));
  if (a.places.empty()) return fault("join: argument 'iterable' is missing");
  TRY_ASSIGN(const auto items, elements_of(a.places[0]));
  if (!std::ranges::all_of(*items, [](const Value& item) { return item.text() != nullptr; }))
    return fault("join: every item must be a text");
  TRY_ASSIGN(std::string out, joined(*items, text));
  return Value(std::move(out));
}

Result<Value> dict_method(const Value& v, std::string_view name, const Arguments& a) {
  if (name == "get") {
    TRY(a.check({"key", "default"}));
    if (a.places.empty()) return fault("get: argument 'key' is missing");
    const Value* found = a.places[0].text() ? v.dict()->find(*a.places[0].text()) : nullptr;
    const Value* other = a.get(1, "default");
    return found ? *found : other ? *other : Value(None{});
  }
  TRY(a.check({}));
  if (name == "items") return apply_filter("items", v, a);
  if (name == "keys") return apply_filter("list", v, a);
  if (name != "values") return no_method(v, name);
  List out;
  for (const auto& [key, value] : v.dict()->entries()) out.push_back(value);
  return Value(std::move(out));
}

}  // namespace

Result<Value> call_method(const Value& v, std::string_view name, const Arguments& a) {
  if (v.is_undefined()) return undefined_fault(v);
  Result<Value> made = v.text()   ? text_method(v, name, a)
                       : v.dict() ? dict_method(v, name, a)
                                  : Result<Value>(no_method(v, name));
  if (made || made.error().message.find(name) != std::string::npos) return made;
  return fault(fmt::format("{}: {}", name, made.error().message));
}

}  // namespace tidepool::jinja
