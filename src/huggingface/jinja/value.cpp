// Value compares and prints as Python does.
#include "huggingface/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/overloaded.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

const u64* Dict::place(std::string_view key) const {
  const auto found = places_.find(std::string(key));
  return found == places_.end() ? nullptr : &found->second;
}

const Value* Dict::find(std::string_view key) const {
  if (!places_.empty()) {
    const u64* at = place(key);
    return at ? &entries_[*at].second : nullptr;
  }
  for (const auto& [name, value] : entries_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Dict::set(std::string key, Value value) {
  if (const Value* found = find(key)) {
    *const_cast<Value*>(found) = std::move(value);  // this object is not const
  } else {
    append(std::move(key), std::move(value));
  }
}

void Dict::append(std::string key, Value value) {
  constexpr size_t few = 16;
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= few) return;
  for (u64 i = places_.size(); i < entries_.size(); ++i) places_.emplace(entries_[i].first, i);
}

namespace {

template <class T>
T* pointer_in(const Value::Held& held) {
  const auto* found = std::get_if<std::shared_ptr<T>>(&held);
  return found ? found->get() : nullptr;
}

// Value as a number. Bools count as numbers, as in Python.
std::optional<double> number(const Value& v) {
  if (const i64* i = v.integer()) return static_cast<double>(*i);
  if (const bool* b = v.boolean()) return *b ? 1 : 0;
  if (const double* d = v.real()) return *d;
  return std::nullopt;
}

bool equal_lists(const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

std::string list_repr(const Value& v) {
  const List& list = *v.list();
  std::string_view open = "[", close = "]";
  if (v.is_tuple()) open = "(", close = list.size() == 1 ? ",)" : ")";
  if (v.look() == Look::keys) open = "dict_keys([", close = "])";
  if (v.look() == Look::values) open = "dict_values([", close = "])";
  if (v.look() == Look::items) open = "dict_items([", close = "])";
  std::string out(open);
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    out += to_repr(list[i]);
  }
  return out.append(close);
}

std::string dict_repr(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, v] : dict.entries())
    out += (out.size() > 1 ? ", " : "") + to_repr(Value(key)) + ": " + to_repr(v);
  return out + "}";
}

// repr() of a text: single quotes unless double quotes need fewer escapes. Characters that do not print are
// escaped: \n, \xa0, \u200b.
std::string text_repr(std::string_view text) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  std::string out(1, quote);
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    const u32 c = code_point_at(text, at, &bytes);
    if (c == static_cast<u8>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (is_printable(c)) {
      out += text.substr(at, bytes);
    } else {
      out += c < 0x100     ? fmt::format("\\x{:02x}", c)
             : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
    }
  }
  return out + quote;
}

}  // namespace

Value::Value(List v) {
  for (const Value& item : v) weigh(item);
  ++depth_;
  held_ = std::make_shared<const List>(std::move(v));
}

Value Value::looking(Value v, Look look) {
  v.look_ = look;
  return v;
}

Value Value::iterator(List v) {
  Value out(std::move(v));
  out.held_ = std::make_shared<Iterator>(Iterator{out.shared_list()});
  return out;
}

Value::Value(Dict v) {
  for (const auto& [key, value] : v.entries()) {
    weigh(value);
    weight_ += key.size();
  }
  ++depth_;
  held_ = std::make_shared<const Dict>(std::move(v));
}

u64 Value::weight() const { return text() ? text()->size() + 8 : weight_; }

void Value::weigh(const Value& part) {
  depth_ = std::max(depth_, part.depth());
  weight_ = std::min<u64>(weight_ + part.weight(), u64{1} << 60);
}

const std::string* Value::text() const { return pointer_in<const std::string>(held_); }
const List* Value::list() const { return pointer_in<const List>(held_); }
const Dict* Value::dict() const { return pointer_in<const Dict>(held_); }
const LargeInteger* Value::large_integer() const { return pointer_in<const LargeInteger>(held_); }
Namespace* Value::space() const { return pointer_in<Namespace>(held_); }
const Loop* Value::loop() const { return pointer_in<const Loop>(held_); }
Iterator* Value::iterator() const { return pointer_in<Iterator>(held_); }
std::shared_ptr<const List> Value::shared_list() const {
  const auto* found = std::get_if<std::shared_ptr<const List>>(&held_);
  return found ? *found : nullptr;
}

bool is_true(const Value& v) {
  return std::visit(
      Overloaded{[](const Undefined&) { return false; }, [](None) { return false; }, [](bool b) { return b; },
                 [](i64 i) { return i != 0; }, [](double d) { return d != 0; },
                 [](const Value::Text& t) { return !t->empty(); },
                 [](const std::shared_ptr<const List>& l) { return !l->empty(); },
                 [](const std::shared_ptr<const Dict>& d) { return !d->entries().empty(); },
                 [](const auto&) { return true; }},
      v.held());
}

bool equal(const Value& a, const Value& b) {
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (const auto x = number(a), y = number(b); x && y) return *x == *y;
  if (a.large_integer() && b.large_integer()) return a.large_integer()->digits == b.large_integer()->digits;
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list()) return a.is_tuple() == b.is_tuple() && equal_lists(*a.list(), *b.list());
  if (a.dict() && b.dict()) return equal_dicts(*a.dict(), *b.dict());
  if (a.space() && b.space()) return a.space() == b.space();
  if (a.iterator() && b.iterator()) return a.iterator() == b.iterator();
  if (a.is_undefined() || a.is_none()) return a.held().index() == b.held().index();
  return false;
}

std::string_view type_name(const Value& v) {
  constexpr std::string_view names[] = {"undefined", "None",     "bool", "int",       "float",
                                        "str",       "list",     "dict", "namespace", "loop",
                                        "macro",     "function", "int",  "iterator"};
  static_assert(std::size(names) == std::variant_size_v<Value::Held>);
  if (v.look() == Look::keys || v.look() == Look::values || v.look() == Look::items) return "view of a dict";
  if (v.look() == Look::range) return "range";
  return v.is_tuple() ? "tuple" : names[v.held().index()];
}

std::string real_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  // Python uses exponents below -4 and from 16 on; to_chars would choose the shorter form.
  char buffer[64];
  const auto scientific = std::to_chars(buffer, std::end(buffer), d, std::chars_format::scientific);
  std::string text(buffer, scientific.ptr);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (d == 0 || (exponent >= -4 && exponent < 16)) {
    const auto fixed = std::to_chars(buffer, std::end(buffer), d, std::chars_format::fixed);
    text.assign(buffer, fixed.ptr);
    if (text.find('.') == text.npos) text += ".0";
  }
  return text;
}

bool has_text(const Value& v) {
  return v.look() != Look::range && !v.iterator() && !v.loop() && !v.space() &&
         !std::holds_alternative<Function>(v.held()) &&
         !std::holds_alternative<std::shared_ptr<const Macro>>(v.held());
}

std::string to_text(const Value& v) {
  if (v.is_undefined()) return "";
  return v.text() ? *v.text() : to_repr(v);
}

std::string to_repr(const Value& v) {
  return std::visit(
      Overloaded{[](const Undefined&) { return std::string("Undefined"); },
                 [](None) { return std::string("None"); },
                 [](bool b) { return std::string(b ? "True" : "False"); },
                 [](i64 i) { return fmt::format("{}", i); }, [](double d) { return real_text(d); },
                 [&](const Value::Text& t) {
                   return v.is_markup() ? "Markup(" + text_repr(*t) + ")" : text_repr(*t);
                 },
                 [&](const std::shared_ptr<const List>&) { return list_repr(v); },
                 [](const std::shared_ptr<const Dict>& d) { return dict_repr(*d); },
                 [](const std::shared_ptr<const LargeInteger>& i) { return i->digits; },
                 [](const auto&) { return std::string(); }},
      v.held());
}

}  // namespace tidepool::jinja
