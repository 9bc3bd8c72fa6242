// Methods of Python's str, dict and list that chat templates call.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

Error no_method(const Value& v, std::string_view name) {
  return fault(fmt::format("a {} has no method '{}' that Tidepool supports", type_name(v), name));
}

Result<Value> list_of(std::vector<std::string> parts) {
  TRY(check_count(parts.size()));
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

std::vector<std::string> pieces(std::string_view text, std::string_view at, u64 count) {
  std::vector<std::string> out;
  u64 begin = 0;
  while (count-- > 0) {
    const u64 found = find_text(text, at, begin);
    if (found == text.npos) break;
    out.emplace_back(text.substr(begin, found - begin));
    begin = found + at.size();
  }
  out.emplace_back(text.substr(begin));
  return out;
}

// Pieces from the end, for rsplit: in the text read backwards.
std::vector<std::string> pieces_from_end(std::string_view text, std::string_view at, u64 count) {
  const std::string back_text(text.rbegin(), text.rend()), back_at(at.rbegin(), at.rend());
  std::vector<std::string> out = pieces(back_text, back_at, count);
  std::ranges::reverse(out);
  for (std::string& piece : out) std::ranges::reverse(piece);
  return out;
}

Result<Value> split(const std::string& text, const Arguments& a, bool from_end) {
  TRY(a.check({"sep", "maxsplit"}));
  TRY_ASSIGN(const i64 most, a.integer_or(1, "maxsplit", -1));
  const u64 count = most < 0 ? parts_max : std::min(static_cast<u64>(most), parts_max);
  const Value* at = a.get(0, "sep");
  if (at == nullptr || at->is_none()) return list_of(words(text, count, from_end));
  TRY_ASSIGN(const std::string between, a.text(0, "sep"));
  if (between.empty()) return fault("split: the separator is empty");
  return list_of(from_end ? pieces_from_end(text, between, count) : pieces(text, between, count));
}

Result<Value> stripped(const std::string& text, const Arguments& a, Sides sides) {
  TRY(a.check({"chars"}));
  const Value* given = a.get(0, "chars");
  if (given == nullptr || given->is_none()) return Value(strip(text, sides));
  TRY_ASSIGN(const std::string characters, a.text(0, "chars"));
  return Value(strip(text, characters, sides));
}

// The part of a text from argument `first` on, up to the one behind it: places of characters, as in a slice.
// RETURNS: none if it would begin behind the text.
Result<std::optional<std::string_view>> part_of(const std::string& text, const Arguments& a, size_t first,
                                                u64* skipped) {
  TRY_ASSIGN(i64 from, a.integer_or(first, "start", 0));
  const i64 size = static_cast<i64>(count_code_points(text));
  TRY_ASSIGN(i64 to, a.integer_or(first + 1, "end", size));
  *skipped = 0;
  if (from > size) return std::optional<std::string_view>();
  if (from == 0 && to >= size) return std::optional<std::string_view>(text);
  from = std::clamp<i64>(from < 0 ? from + size : from, 0, size);
  to = std::clamp<i64>(to < 0 ? to + size : to, from, size);
  *skipped = static_cast<u64>(from);
  const u64 begin = byte_of_code_point(text, static_cast<u64>(from)),
            end = byte_of_code_point(text, static_cast<u64>(to));
  return std::optional(std::string_view(text).substr(begin, end - begin));
}

// startswith and endswith, with one text or a tuple of texts.
Result<Value> bounded(const std::string& whole, std::string_view name, const Arguments& a) {
  TRY(a.check({"prefix", "start", "end"}));
  u64 skipped = 0;
  TRY_ASSIGN(const std::optional<std::string_view> within, part_of(whole, a, 1, &skipped));
  if (!within) return Value(false);
  const std::string_view text = *within;
  const auto matches = [&](const std::string& part) {
    return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
  };
  const Value* given = a.get(0, "prefix");
  if (given && given->is_tuple()) {
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

Result<Value> search(const std::string& whole, std::string_view name, const Arguments& a) {
  TRY(a.check({"sub", "start", "end"}));
  TRY_ASSIGN(const std::string part, a.text(0, "sub"));
  u64 skipped = 0;
  TRY_ASSIGN(const std::optional<std::string_view> within, part_of(whole, a, 1, &skipped));
  if (!within && name == "count") return Value(i64{0});
  const std::string_view text = within.value_or("");
  if (name.starts_with('r')) TRY(a.work.spend(text.size() / 4));
  if (name != "count") {
    const u64 found = !within                             ? text.npos
                      : name == "find" || name == "index" ? find_text(text, part)
                                                          : find_text_last(text, part);
    if (found != text.npos)
      return Value(static_cast<i64>(skipped + count_code_points(text.substr(0, found))));
    if (name.ends_with("index"))
      return fault(fmt::format("{}: the text does not have '{}'", name, part.substr(0, 100)));
    return Value(i64{-1});
  }
  if (part.empty()) return Value(static_cast<i64>(count_code_points(text) + 1));
  i64 count = 0;
  TRY(a.work.spend(text.size() / 8 / part.size()));
  for (u64 at = find_text(text, part); at != text.npos; at = find_text(text, part, at + part.size())) ++count;
  return Value(count);
}

// partition and rpartition: what stands before a separator, the separator, and what stands behind it.
Result<Value> partition(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({"sep"}));
  TRY_ASSIGN(const std::string at, a.text(0, "sep"));
  if (at.empty()) return fault("the separator is empty");
  const bool last = name == "rpartition";
  if (last) TRY(a.work.spend(text.size() / 4));
  const u64 found = last ? find_text_last(text, at) : find_text(text, at);
  if (found == text.npos)
    return Value::tuple(last ? List{Value(""), Value(""), Value(text)}
                             : List{Value(text), Value(""), Value("")});
  return Value::tuple({Value(text.substr(0, found)), Value(at), Value(text.substr(found + at.size()))});
}

// center, ljust, rjust and zfill.
Result<Value> widened(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({"width", "fillchar"}));
  if (a.places.empty()) return fault("the width is missing");
  TRY_ASSIGN(const i64 width, a.integer_or(0, "width", 0));
  TRY_ASSIGN(const std::string fill, a.text_or(1, "fillchar", name == "zfill" ? "0" : " "));
  if (count_code_points(fill) != 1) return fault("the filling must be one character");
  const i64 length = static_cast<i64>(count_code_points(text));
  if (width <= length) return Value(text);
  if (width > static_cast<i64>(Value::weight_max)) return fault("the text would be too long");
  const u64 room = static_cast<u64>(width - length);
  TRY(a.work.spend(room));
  // Python puts the odd blank of a centred text on the left if the width is odd too.
  const u64 left = name == "ljust"    ? 0
                   : name == "center" ? room / 2 + (room & static_cast<u64>(width) & 1)
                                      : room;
  const bool sign = name == "zfill" && (text.starts_with('-') || text.starts_with('+'));
  std::string out = sign ? text.substr(0, 1) : "";
  for (u64 i = 0; i < left; ++i) out += fill;
  out += sign ? text.substr(1) : text;
  for (u64 i = left; i < room; ++i) out += fill;
  return Value(std::move(out));
}

std::string swapped_case(std::string_view text) {
  std::string out;
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    const u32 c = code_point_at(text, at, &bytes);
    const std::string_view one = text.substr(at, bytes);
    out += is_upper(c) ? lower(one) : is_lower(c) ? upper(one) : std::string(one);
  }
  return out;
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
  if (name == "swapcase" || name == "title") TRY(a.work.spend(text.size() / 4));
  if (name == "swapcase") return Value(swapped_case(text));
  return Value(name == "title" ? title(text) : capitalized(text));
}

bool is_word(u32 c) { return is_letter(c) || is_number(c) || is_digit(c); }
bool is_ascii(u32 c) { return c < 0x80; }

// isalpha and the like: true if all characters are of a kind.
Result<Value> kind_of(const std::string& text, std::string_view name, const Arguments& a) {
  TRY(a.check({}));
  if (name == "isascii" || name == "isprintable")
    return Value(text.empty() || all_code_points(text, name == "isascii" ? is_ascii : is_printable));
  if (name == "isupper" || name == "islower")
    return Value((name == "isupper" ? upper(text) : lower(text)) == text && upper(text) != lower(text));
  return Value(all_code_points(text, name == "isspace"     ? is_space
                                     : name == "isdigit"   ? is_digit
                                     : name == "isdecimal" ? is_decimal
                                     : name == "isalpha"   ? is_letter
                                                           : is_word));
}

// Methods that keep the mark of a text that is marked safe.
Result<Value> method_of_same_kind(const std::string& text, std::string_view name, const Arguments& a) {
  if (name == "strip") return stripped(text, a, {});
  if (name == "lstrip") return stripped(text, a, {.end = false});
  if (name == "rstrip") return stripped(text, a, {.begin = false});
  if (name == "removeprefix" || name == "removesuffix") return without_affix(text, name, a);
  return case_of(text, name, a);
}

Result<Value> text_method(const Value& v, std::string_view name, const Arguments& a) {
  const std::string& text = *v.text();
  if (name.ends_with("strip") || name.starts_with("remove") || name == "upper" || name == "lower" ||
      name == "title" || name == "capitalize" || name == "swapcase") {
    TRY_ASSIGN(Value made, method_of_same_kind(text, name, a));
    return Value::looking(std::move(made), v.look());
  }
  if (name == "startswith" || name == "endswith") return bounded(text, name, a);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
    return search(text, name, a);
  if (name.starts_with("is")) return kind_of(text, name, a);
  if (v.is_markup())
    return fault(
        fmt::format("{}: of a text that is marked safe it would escape and mark other texts; call it before "
                    "| safe",
                    name));
  if (name == "split" || name == "rsplit") return split(text, a, name == "rsplit");
  if (name == "replace") return apply_filter("replace", v, a);
  if (name == "partition" || name == "rpartition") return partition(text, name, a);
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill")
    return widened(text, name, a);
  if (name == "format") {
    TRY_ASSIGN(std::string out, formatted_by_braces(text, a));
    return Value(std::move(out));
  }
  if (name == "splitlines") {
    TRY(a.check({"keepends"}));
    return list_of(lines_of(text, a.truth_or(0, "keepends", false)));
  }
  if (name != "join") return no_method(v, name);
  TRY(a.check({"iterable"}));
  if (a.places.empty()) return fault("join: argument 'iterable' is missing");
  TRY_ASSIGN(const auto items, elements_of(a.places[0], a.work));
  if (!std::ranges::all_of(*items, [](const Value& item) { return item.text() != nullptr; }))
    return fault("join: every item must be a text");
  TRY_ASSIGN(std::string out, joined(*items, text, a.work));
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
  if (name == "copy") return v;
  if (name != "items" && name != "keys" && name != "values") return no_method(v, name);
  List out;
  for (const auto& [key, value] : v.dict()->entries())
    out.push_back(name == "keys" ? Value(key) : name == "values" ? value : Value::tuple({Value(key), value}));
  return Value::looking(Value(std::move(out)), name == "keys"     ? Look::keys
                                               : name == "values" ? Look::values
                                                                  : Look::items);
}

// index and count of lists and tuples.
Result<Value> list_method(const Value& v, std::string_view name, const Arguments& a) {
  if (name == "copy" && v.look() == Look::plain) return v;
  if ((name != "index" && name != "count") || (v.look() != Look::plain && !v.is_tuple()))
    return no_method(v, name);
  TRY(a.check({"value"}));
  if (a.places.empty()) return fault("the value is missing");
  TRY(pay_deep(a.work, v));
  const List& list = *v.list();
  const auto same = [&](const Value& item) { return equal(item, a.places[0]); };
  if (name == "count") return Value(i64{std::ranges::count_if(list, same)});
  const auto found = std::ranges::find_if(list, same);
  if (found == list.end()) return fault("index: the list does not have the value");
  return Value(i64{found - list.begin()});
}

}  // namespace

Result<Value> call_method(const Value& v, std::string_view name, const Arguments& a) {
  if (v.is_undefined()) return undefined_fault(v);
  TRY(a.work.spend(1));
  const bool looks_up = v.dict() && name == "get";
  if (!looks_up) TRY(pay_shallow(a.work, v));
  for (const Value& value : a.places) {
    if (!looks_up) TRY(pay_deep(a.work, value));
  }
  Result<Value> made = v.text()   ? text_method(v, name, a)
                       : v.dict() ? dict_method(v, name, a)
                       : v.list() ? list_method(v, name, a)
                                  : Result<Value>(no_method(v, name));
  if (!made && made.error().message.find(name) == std::string::npos)
    return fault(fmt::format("{}: {}", name, made.error().message));
  if (made && !looks_up) TRY(pay_shallow(a.work, *made));
  return made;
}

}  // namespace tidepool::jinja
