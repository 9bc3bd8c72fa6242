// Jinja's filters that chat templates use, with the argument names and defaults of Jinja's documentation.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "huggingface/jinja/json.h"
#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

using Filter = Result<Value> (*)(const Value&, const Arguments&);

Result<Value> length(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.is_undefined()) return Value(i64{0});
  if (v.text()) return Value(static_cast<i64>(count_code_points(*v.text())));
  if (v.list()) return Value(static_cast<i64>(v.list()->size()));
  if (v.dict()) return Value(static_cast<i64>(v.dict()->entries().size()));
  return fault(fmt::format("a {} has no length", type_name(v)));
}

Result<Value> preset(const Value& v, const Arguments& a) {
  TRY(a.check({"default_value", "boolean"}));
  const bool taken = v.is_undefined() || (a.truth_or(1, "boolean", false) && !is_true(v));
  if (!taken) return v;
  const Value* other = a.get(0, "default_value");
  return other ? *other : Value("");
}

template <std::string (*map)(std::string_view)>
Result<Value> mapped(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  return Value(map(to_text(v)));
}

// Filter `title`. A word starts after white space, a hyphen or an opening bracket.
std::string titled(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    u64 end = text.find_first_of("- \t\n\r\f\v({[<");
    const std::string_view word = text.substr(0, end);
    u32 bytes = 0;
    if (!word.empty()) code_point_at(word, 0, &bytes);
    out += upper(word.substr(0, bytes)) + lower(word.substr(bytes));
    text.remove_prefix(word.size());
    end = text.find_first_not_of("- \t\n\r\f\v({[<");
    out += text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end);
  }
  return out;
}

Result<Value> trimmed(const Value& v, const Arguments& a) {
  TRY(a.check({"chars"}));
  const std::string text = to_text(v);
  const Value* given = a.get(0, "chars");
  if (given == nullptr || given->is_none()) return Value(strip(text));
  TRY_ASSIGN(const std::string characters, a.text(0, "chars"));
  return Value(strip(text, characters));
}

Result<Value> tojson(const Value& v, const Arguments& a) {
  TRY(a.check({"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonLook look{.ascii = a.truth_or(0, "ensure_ascii", false), .sorted = a.truth_or(3, "sort_keys", false)};
  if (const Value* separators = a.get(2, "separators"); separators && !separators->is_none())
    return fault("separators of tojson are outside of the Jinja that Tidepool supports");
  if (const Value* indent = a.get(1, "indent"); indent && indent->text()) {
    look.indent = *indent->text();
  } else if (indent && !indent->is_none()) {
    TRY_ASSIGN(const i64 blanks, a.integer_or(1, "indent", 0));
    look.indent = std::string(static_cast<size_t>(std::clamp<i64>(blanks, 0, 17)), ' ');
  }
  if (look.indent && look.indent->size() > 16) return fault("an indent of more than 16 is not supported");
  TRY_ASSIGN(std::string text, to_json(v, look));
  return Value(std::move(text));
}

Result<Value> join(const Value& v, const Arguments& a) {
  TRY(a.check({"d", "attribute"}));
  TRY_ASSIGN(const std::string between, a.text_or(0, "d", ""));
  TRY_ASSIGN(const auto items, elements_of(v));
  const Value* attribute = a.get(1, "attribute");
  if (attribute == nullptr) {
    TRY_ASSIGN(std::string text, joined(*items, between));
    return Value(std::move(text));
  }
  List fields;
  for (const Value& item : *items) {
    TRY_ASSIGN(Value field, item_of(item, *attribute));
    fields.push_back(std::move(field));
  }
  TRY_ASSIGN(std::string text, joined(fields, between));
  return Value(std::move(text));
}

Result<Value> replace(const Value& v, const Arguments& a) {
  TRY(a.check({"old", "new", "count"}));
  TRY_ASSIGN(const std::string from, a.text(0, "old"));
  TRY_ASSIGN(const std::string to, a.text(1, "new"));
  TRY_ASSIGN(const i64 count, a.integer_or(2, "count", -1));
  TRY_ASSIGN(std::string text, replaced(to_text(v), from, to, count));
  return Value(std::move(text));
}

Result<Value> first(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const auto items, elements_of(v));
  return items->empty() ? Value(Undefined{"there is no first item: the list is empty"}) : items->front();
}
Result<Value> last(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const auto items, elements_of(v));
  return items->empty() ? Value(Undefined{"there is no last item: the list is empty"}) : items->back();
}
Result<Value> list(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const auto items, elements_of(v));
  return Value(*items);
}
Result<Value> string(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  return Value(to_text(v));
}
Result<Value> unchanged(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  return v;
}
Result<Value> items(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.is_undefined()) return Value(List());
  if (!v.dict()) return fault(fmt::format("items: must be a mapping, not {}", type_name(v)));
  List out;
  for (const auto& [key, value] : v.dict()->entries()) out.push_back(Value::tuple({Value(key), value}));
  return Value(std::move(out));
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Value> to_integer(const Value& v, const Arguments& a) {
  TRY(a.check({"default"}));
  const Value* other = a.get(0, "default");
  const Value otherwise = other ? *other : Value(i64{0});
  if (v.integer() || v.large_integer()) return v;
  if (v.boolean()) return Value(i64{*v.boolean()});
  if (v.is_undefined()) return otherwise;
  std::optional<double> real;
  if (v.real()) real = *v.real();
  if (v.text()) {
    const std::string_view text = strip(*v.text());
    if (const auto whole = number_in<i64>(text)) return Value(*whole);
    real = number_in<double>(text);
  }
  if (!real || !(std::abs(*real) < 0x1p63)) return otherwise;
  return Value(static_cast<i64>(*real));
}

Result<Value> to_real(const Value& v, const Arguments& a) {
  TRY(a.check({"default"}));
  const Value* other = a.get(0, "default");
  if (v.real()) return v;
  if (v.integer()) return Value(static_cast<double>(*v.integer()));
  if (v.boolean()) return Value(*v.boolean() ? 1.0 : 0.0);
  if (v.text()) {
    if (const auto real = number_in<double>(strip(*v.text()))) return Value(*real);
  }
  return other ? *other : Value(0.0);
}

Result<Value> absolute(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const bool below, compare("<", v, Value(i64{0})));
  return below ? negative(v) : Result<Value>(v);
}

Result<Value> reverse(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  const Value step(i64{-1});
  if (v.text()) return slice_of(v, nullptr, nullptr, &step);
  TRY_ASSIGN(const auto items, elements_of(v));
  return Value(List(items->rbegin(), items->rend()));
}

Result<Value> indent(const Value& v, const Arguments& a) {
  TRY(a.check({"width", "first", "blank"}));
  const Value* width = a.get(0, "width");
  std::string blanks;
  if (width && width->text()) {
    blanks = *width->text();
  } else {
    TRY_ASSIGN(const i64 count, a.integer_or(0, "width", 4));
    blanks.assign(static_cast<size_t>(std::clamp<i64>(count, 0, 1000)), ' ');
  }
  const std::vector<std::string> lines = lines_of(to_text(v) + "\n");
  if (!blanks.empty() && lines.size() > Value::weight_max / blanks.size())
    return fault("indent: the text would be too long");
  std::string out = a.truth_or(1, "first", false) ? blanks : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (a.truth_or(2, "blank", false) || !lines[i].empty())) out += blanks;
    out += lines[i];
  }
  return Value(std::move(out));
}

// Looks up an attribute of an attribute: "a.b".
Result<Value> field_at(Value v, const std::string& path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const auto at = number_in<i64>(name);
    TRY_ASSIGN(v, item_of(v, at ? Value(*at) : Value(name)));
    begin = end + 1;
  }
  return v;
}

Result<Value> map(const Value& v, const Arguments& a) {
  TRY_ASSIGN(const auto items, elements_of(v));
  List out;
  if (a.named("attribute")) {
    TRY_ASSIGN(const std::string path, a.text(99, "attribute"));
    for (const Value& item : *items) {
      TRY_ASSIGN(Value field, field_at(item, path));
      if (const Value* other = a.named("default"); other && field.is_undefined()) field = *other;
      out.push_back(std::move(field));
    }
    return Value(std::move(out));
  }
  if (a.places.empty()) return fault("the filter's name is missing; give it first, as in map('upper')");
  TRY_ASSIGN(const std::string name, a.text(0, "filter"));
  Arguments rest{{a.places.begin() + 1, a.places.end()}, a.names};
  for (const Value& item : *items) {
    TRY_ASSIGN(Value made, apply_filter(name, item, rest));
    out.push_back(std::move(made));
  }
  return Value(std::move(out));
}

// Filters select, reject, selectattr and rejectattr. Keeps the elements for which the test holds; without a
// test, those that are true. `by_attribute` tests an attribute instead of the element.
Result<Value> chosen(const Value& v, const Arguments& a, bool by_attribute, bool wanted) {
  TRY_ASSIGN(const auto items, elements_of(v));
  if (!a.names.empty()) return fault("takes no named arguments");
  const size_t test_at = by_attribute ? 1 : 0;
  std::string path, test;
  if (by_attribute) {
    TRY_ASSIGN(path, a.text(0, "attribute"));
  }
  if (a.places.size() > test_at) {
    TRY_ASSIGN(test, a.text(test_at, "test"));
  }
  const Arguments rest{
      {a.places.begin() + static_cast<i64>(std::min(a.places.size(), test_at + 1)), a.places.end()}, {}};
  List out;
  for (const Value& item : *items) {
    Value asked = item;
    if (by_attribute) {
      TRY_ASSIGN(asked, field_at(item, path));
    }
    bool passes = is_true(asked);
    if (!test.empty()) {
      TRY_ASSIGN(passes, apply_test(test, asked, rest));
    }
    if (passes == wanted) out.push_back(item);
  }
  return Value(std::move(out));
}

template <bool by_attribute, bool wanted>
Result<Value> select(const Value& v, const Arguments& a) {
  return chosen(v, a, by_attribute, wanted);
}

Value sort_key(const Value& v, bool case_sensitive) {
  return v.text() && !case_sensitive ? Value(lower(*v.text())) : v;
}

Result<Value> sort(const Value& v, const Arguments& a) {
  TRY(a.check({"reverse", "case_sensitive", "attribute"}));
  TRY_ASSIGN(const auto items, elements_of(v));
  const bool reverse = a.truth_or(0, "reverse", false), exact = a.truth_or(1, "case_sensitive", false);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : *items) {
    Value field = item;
    if (const Value* attribute = a.get(2, "attribute"); attribute && !attribute->is_none()) {
      TRY_ASSIGN(field, field_at(item, to_text(*attribute)));
    }
    keyed.emplace_back(sort_key(field, exact), item);
    TRY(compare("<", keyed.front().first, keyed.back().first));  // keys of different kinds: error
  }
  std::ranges::stable_sort(keyed, [&](const auto& x, const auto& y) {
    return reverse ? *compare("<", y.first, x.first) : *compare("<", x.first, y.first);
  });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value(std::move(out));
}

Result<Value> unique(const Value& v, const Arguments& a) {
  TRY(a.check({"case_sensitive"}));
  TRY_ASSIGN(const auto items, elements_of(v));
  if (items->size() > 10'000) return fault("unique: more than 10000 elements");
  const bool exact = a.truth_or(0, "case_sensitive", false);
  List keys, out;
  for (const Value& item : *items) {
    const Value key = sort_key(item, exact);
    if (std::ranges::any_of(keys, [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return Value(std::move(out));
}

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> table = {
      {"abs", absolute},
      {"capitalize", mapped<capitalized>},
      {"count", length},
      {"d", preset},
      {"default", preset},
      {"first", first},
      {"float", to_real},
      {"indent", indent},
      {"int", to_integer},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", length},
      {"list", list},
      {"lower", mapped<lower>},
      {"map", map},
      {"reject", select<false, false>},
      {"rejectattr", select<true, false>},
      {"replace", replace},
      {"reverse", reverse},
      {"safe", unchanged},
      {"select", select<false, true>},
      {"selectattr", select<true, true>},
      {"sort", sort},
      {"string", string},
      {"title", mapped<titled>},
      {"tojson", tojson},
      {"trim", trimmed},
      {"unique", unique},
      {"upper", mapped<upper>},
  };
  return table;
}

}  // namespace

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  u32 bytes = 1;
  code_point_at(text, 0, &bytes);
  std::string first = upper(text.substr(0, bytes));
  if (bytes == 2 && first == "SS") first = "Ss";  // the sharp s becomes two letters, the first a capital

  return first + lower(text.substr(bytes));
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  std::string line;
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    const u32 c = code_point_at(text, at, &bytes);
    const bool ends =
        (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) line += text.substr(at, bytes);
    at += bytes;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(std::exchange(line, ""));
  }
  if (!line.empty()) out.push_back(std::move(line));
  return out;
}

Result<std::string> replaced(const std::string& text, const std::string& from, const std::string& to,
                             i64 count) {
  u64 left = count < 0 ? ~u64{0} : static_cast<u64>(count);
  std::string out;
  u64 at = 0;
  const auto put = [&](u64 until) {
    out.append(text, at, until - at);
    out += to;
    at = until + from.size();
    --left;
    return out.size() <= Value::weight_max;
  };
  if (from.empty()) {  // inserts before each character and at the end
    for (u64 i = 0; i <= text.size() && left > 0; ++i) {
      const bool begins = i == text.size() || (static_cast<u8>(text[i]) & 0xc0) != 0x80;
      if (begins && !put(i)) return fault("replace: the text becomes too long");
    }
  } else {
    for (u64 found = text.find(from); found != text.npos && left > 0; found = text.find(from, at)) {
      if (!put(found)) return fault("replace: the text becomes too long");
    }
  }
  return out.append(text, std::min(at, text.size()));
}

Result<std::string> joined(const List& items, const std::string& between) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += between;
    out += to_text(items[i]);
    if (out.size() > Value::weight_max) return fault("join: the text becomes too long");
  }
  return out;
}

Result<Value> apply_filter(std::string_view name, const Value& v, const Arguments& a) {
  const auto found = filters().find(name);
  if (found == filters().end()) return fault(fmt::format("filter '{}' is unknown", name));
  Result<Value> made = found->second(v, a);
  if (made) return made;
  return fault(fmt::format("{}: {}", name, made.error().message));
}

}  // namespace tidepool::jinja
