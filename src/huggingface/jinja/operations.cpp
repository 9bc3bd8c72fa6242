// Operations follow Python's rules for numbers, indices and missing values.
#include "huggingface/jinja/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

struct Number {
  bool whole = true;
  i64 integer = 0;
  double real = 0;
};

std::optional<Number> number_of(const Value& v) {
  if (v.boolean()) return Number{true, *v.boolean(), static_cast<double>(*v.boolean())};
  if (v.integer()) return Number{true, *v.integer(), static_cast<double>(*v.integer())};
  if (v.real()) return Number{false, 0, *v.real()};
  return std::nullopt;
}

Value missing(std::string_view name, const Value& in) {
  return Undefined{fmt::format("'{}' is undefined in a {}", name, type_name(in))};
}

constexpr u64 power_max = 4096;  // exponent of integers: larger ones overflow, or take long to multiply

// A list or tuple, whichever `like` is.
Value row_like(const Value& like, List items) {
  return like.is_tuple() ? Value::tuple(std::move(items)) : Value(std::move(items));
}

Value text_like(const Value& like, std::string text) {
  return Value::looking(Value(std::move(text)), like.look());
}

// The characters of a text, each as a value.
List characters(std::string_view text) {
  List out;
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    code_point_at(text, at, &bytes);
    out.emplace_back(text.substr(at, bytes));
    at += bytes;
  }
  return out;
}

std::vector<u64> letter_begins(std::string_view text) {
  std::vector<u64> out;
  for (u64 at = 0; at < text.size(); ++at) {
    if ((static_cast<u8>(text[at]) & 0xc0) != 0x80) out.push_back(at);
  }
  out.push_back(text.size());
  return out;
}

// Resolves an index as Python does; negative indices count from the end. None: out of range.
std::optional<u64> place(i64 at, u64 size) {
  if (at < 0) at += static_cast<i64>(size);
  if (at < 0 || static_cast<u64>(at) >= size) return std::nullopt;
  return static_cast<u64>(at);
}

Result<Value> power_of(i64 base, i64 exponent) {
  if (exponent < 0) {
    if (base == 0) return fault("0 has no negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  const bool small = base >= -1 && base <= 1;
  if (!small && static_cast<u64>(exponent) > power_max)
    return fault(fmt::format("{} ** {} is too large for 64 bits", base, exponent));
  i64 out = 1;
  for (i64 i = 0, end = small ? (exponent > 0) + (exponent % 2 == 0 && exponent > 0) : exponent; i < end;
       ++i) {
    if (__builtin_mul_overflow(out, base, &out))
      return fault(fmt::format("{} ** {} is too large for 64 bits", base, exponent));
  }
  return Value(out);
}

Result<Value> integers(std::string_view op, i64 a, i64 b) {
  i64 out = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &out);
  if (op == "**") return power_of(a, b);
  if (op == "//" || op == "%") {
    if (b == 0) return fault("division by zero");
    overflow = a == std::numeric_limits<i64>::min() && b == -1;
    if (!overflow) {
      const i64 rest = a % b, floor_rest = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
      out = op == "%" ? floor_rest : (a - floor_rest) / b;
    }
  }
  if (overflow) return fault(fmt::format("{} {} {} is too large for 64 bits", a, op, b));
  return Value(out);
}

Result<Value> reals(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") {
    const double out = std::pow(a, b);
    if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) return fault("the power is a complex number");
    if (std::isinf(out) && !std::isinf(a) && !std::isinf(b))
      return fault(a == 0 ? "0 has no negative power" : "the power is too large for a float");
    return Value(out);
  }
  if (b == 0) return fault("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> repeated(const Value& what, i64 times, Work& work) {
  const u64 count = times < 0 ? 0 : static_cast<u64>(times);
  if (count > 0 && what.weight() > Value::weight_max / count)
    return fault(fmt::format("{} times a {} is too long", count, type_name(what)));
  TRY(work.spend_bytes(count * what.weight()));
  if (what.text()) {
    std::string out;
    for (u64 i = 0; i < count && !what.text()->empty(); ++i) out += *what.text();
    return text_like(what, std::move(out));
  }
  List out;
  for (u64 i = 0; i < count && !what.list()->empty(); ++i)
    out.insert(out.end(), what.list()->begin(), what.list()->end());
  return row_like(what, std::move(out));
}

Result<bool> contains(const Value& part, const Value& whole, Work& work) {
  if (whole.is_undefined()) return false;
  if (Iterator* iterator = whole.iterator()) {
    while (iterator->at < iterator->items->size()) {
      TRY(pay_deep(work, part));
      if (equal((*iterator->items)[iterator->at++], part)) return true;
    }
    return false;
  }
  if (whole.text()) {
    if (part.is_undefined()) return undefined_fault(part);
    TRY(pay_shallow(work, whole));
    TRY(pay_shallow(work, part));
    if (part.text()) return find_text(*whole.text(), *part.text()) != std::string::npos;
    return fault(fmt::format("'in' cannot search a text for a {}", type_name(part)));
  }
  if (whole.dict()) return part.text() && whole.dict()->find(*part.text()) != nullptr;
  TRY(pay_deep(work, whole));
  if (whole.list())
    return std::ranges::any_of(*whole.list(), [&](const Value& item) { return equal(item, part); });
  return fault(fmt::format("'in' cannot search a {}", type_name(whole)));
}

Result<Value> loop_field(const Loop& loop, std::string_view name) {
  const i64 at = static_cast<i64>(loop.at), size = static_cast<i64>(loop.items->size());
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(size - at);
  if (name == "revindex0") return Value(size - at - 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(i64{loop.depth});
  if (name == "depth0") return Value(i64{loop.depth} - 1);
  if (name == "previtem")
    return at > 0 ? (*loop.items)[loop.at - 1] : Value(Undefined{"there is no previous item"});
  if (name == "nextitem")
    return at + 1 < size ? (*loop.items)[loop.at + 1] : Value(Undefined{"there is no next item"});
  return Value(Undefined{fmt::format("'{}' is undefined in loop", name)});
}

}  // namespace

Error undefined_fault(const Value& v) { return fault(std::get<Undefined>(v.held()).what); }

Value attribute_of(const Value& v, std::string_view name) {
  if (v.loop()) return *loop_field(*v.loop(), name);
  if (v.look() == Look::group && (name == "grouper" || name == "list")) return (*v.list())[name == "list"];
  const Dict* dict = v.space() ? &v.space()->values : v.dict();
  const Value* found = dict ? dict->find(name) : nullptr;
  return found ? *found : missing(name, v);
}

Result<Value> item_of(const Value& v, const Value& at, Work& work) {
  if (v.is_undefined()) return undefined_fault(v);
  if (at.is_undefined()) return undefined_fault(at);
  if (at.text()) return attribute_of(v, *at.text());
  const auto number = number_of(at);
  const bool has_places = v.look() == Look::plain || v.look() == Look::range || v.is_tuple();
  if (number && number->whole && v.list() && has_places) {
    const auto found = place(number->integer, v.list()->size());
    return found ? (*v.list())[*found] : missing(to_text(at), v);
  }
  if (number && number->whole && v.text()) {
    TRY(pay_shallow(work, v));
    const auto found = place(number->integer, count_code_points(*v.text()));
    if (!found) return missing(to_text(at), v);
    const u64 begin = byte_of_code_point(*v.text(), *found);
    u32 bytes = 1;
    code_point_at(*v.text(), begin, &bytes);
    return text_like(v, v.text()->substr(begin, bytes));
  }
  return missing(to_text(at), v);
}

Result<Value> slice_of(const Value& v, const Value* from, const Value* to, const Value* step_value,
                       Work& work) {
  if (v.is_undefined()) return undefined_fault(v);
  if ((!v.list() && !v.text()) ||
      (v.list() && v.look() != Look::plain && v.look() != Look::range && !v.is_tuple()))
    return fault(fmt::format("a {} has no slices", type_name(v)));
  for (const Value* bound : {from, to, step_value}) {
    if (bound && bound->is_undefined()) return undefined_fault(*bound);
    if (bound && !bound->is_none() && !bound->integer())
      return fault(fmt::format("the bounds of a slice must be integers, not a {}", type_name(*bound)));
  }
  const auto given = [](const Value* bound) { return bound && bound->integer(); };
  TRY(work.spend(v.text() ? v.text()->size() / 8 : v.list()->size() / 2));
  const i64 step = given(step_value) ? *step_value->integer() : 1;
  if (step == 0) return fault("a slice cannot have step 0");
  const std::vector<u64> letters =
      v.text() ? letter_begins(*v.text()) : std::vector<u64>();  // begins of letters, and the end
  const i64 size = static_cast<i64>(v.text() ? letters.size() - 1 : v.list()->size());
  // Clamps as Python's slice.indices().
  const i64 least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  const auto bound = [&](const Value* value, i64 preset) {
    if (!given(value)) return preset;
    const i64 at = *value->integer();
    return std::clamp(at < 0 ? at + size : at, least, most);
  };
  const i64 begin = bound(from, step > 0 ? least : most), end = bound(to, step > 0 ? most : least);
  List items;
  std::string text;
  for (i64 at = begin; step > 0 ? at < end : at > end; at += step) {
    const size_t i = static_cast<size_t>(at);
    if (v.list()) {
      items.push_back((*v.list())[i]);
    } else {
      text.append(*v.text(), letters[i], letters[i + 1] - letters[i]);
    }
    if (step > size || step < -size) break;  // there is no second element, and its index could overflow
  }
  return v.list() ? row_like(v, std::move(items)) : text_like(v, std::move(text));
}

Result<std::shared_ptr<const List>> elements_of(const Value& v, Work& work) {
  if (v.list()) return v.shared_list();
  if (v.is_undefined()) return std::make_shared<const List>();
  if (v.text()) {
    const u64 count = count_code_points(*v.text());
    TRY(work.spend(2 * count));
    TRY(check_count(count));
    return std::make_shared<const List>(characters(*v.text()));
  }
  if (Iterator* iterator = v.iterator()) {
    const u64 at = std::exchange(iterator->at, iterator->items->size());
    if (at == 0) return iterator->items;
    TRY(work.spend_elements(iterator->items->size() - at));
    return std::make_shared<const List>(iterator->items->begin() + static_cast<i64>(at),
                                        iterator->items->end());
  }
  if (!v.dict()) return fault(fmt::format("a {} has no elements to walk over", type_name(v)));
  TRY(pay_shallow(work, v));
  List keys;
  for (const auto& [key, value] : v.dict()->entries()) keys.emplace_back(key);
  return std::make_shared<const List>(std::move(keys));
}

Result<void> check_count(u64 parts) {
  if (parts <= parts_max) return {};
  return fault(fmt::format("there are more than {} parts", parts_max));
}

Result<void> pay_deep(Work& work, const Value& v) { return work.spend_bytes(v.weight()); }

Result<void> pay_shallow(Work& work, const Value& v) {
  if (v.text()) return work.spend_bytes(v.text()->size());
  if (v.list()) return work.spend_elements(v.list()->size());
  return v.dict() ? work.spend_elements(v.dict()->entries().size()) : Result<void>();
}

Result<std::string> text_for(const Value& v, Work& work) {
  if (v.iterator())
    return fault("an iterator has no text; make a list of it with | list, or a text with | join");
  if (!has_text(v)) return fault(fmt::format("a {} has no text", type_name(v)));
  TRY(pay_deep(work, v));
  return to_text(v);
}

Result<Value> binary(std::string_view op, const Value& a, const Value& b, Work& work) {
  if (op == "~") {
    TRY_ASSIGN(const std::string left, text_for(a, work));
    TRY_ASSIGN(const std::string right, text_for(b, work));
    return Value(left + right);
  }
  if (a.is_undefined()) return undefined_fault(a);
  if (b.is_undefined()) return undefined_fault(b);
  const auto x = number_of(a), y = number_of(b);
  if (x && y)
    return x->whole && y->whole && op != "/" ? integers(op, x->integer, y->integer)
                                             : reals(op, x->real, y->real);
  if (op == "+" && a.text() && b.text()) {
    TRY(pay_shallow(work, a));
    TRY(pay_shallow(work, b));
    const bool safe = a.is_markup() || b.is_markup();
    const auto part = [&](const Value& v) { return safe && !v.is_markup() ? escaped(*v.text()) : *v.text(); };
    return Value::looking(Value(part(a) + part(b)), safe ? Look::markup : Look::plain);
  }
  if (op == "+" && a.list() && b.list() && a.is_tuple() == b.is_tuple() &&
      (a.is_tuple() || (a.look() == Look::plain && b.look() == Look::plain))) {
    TRY(pay_shallow(work, a));
    TRY(pay_shallow(work, b));
    List out = *a.list();
    out.insert(out.end(), b.list()->begin(), b.list()->end());
    return row_like(a, std::move(out));
  }
  if (op == "*" && (a.text() || a.list()) && y && y->whole) return repeated(a, y->integer, work);
  if (op == "*" && (b.text() || b.list()) && x && x->whole) return repeated(b, x->integer, work);
  if (op == "%" && a.text()) {
    if (a.is_markup()) return fault("text that is marked safe has no % here: it would escape the values");
    TRY_ASSIGN(std::string text, formatted(*a.text(), b, work));
    return Value(std::move(text));
  }
  return fault(fmt::format("{} {} {} has no meaning", type_name(a), op, type_name(b)));
}

Result<Value> negative(const Value& v) {
  if (v.is_undefined()) return undefined_fault(v);
  const auto x = number_of(v);
  if (!x) return fault(fmt::format("a {} has no negative", type_name(v)));
  return x->whole ? integers("-", 0, x->integer) : Result<Value>(Value(-x->real));
}

namespace {

// Sign of a - b; none: one is not a number.
Result<std::optional<int>> order_of(std::string_view op, const Value& a, const Value& b, Work& work) {
  if (a.is_undefined()) return undefined_fault(a);
  if (b.is_undefined()) return undefined_fault(b);
  const auto x = number_of(a), y = number_of(b);
  if (x && y) {
    if (x->whole && y->whole)
      return std::optional<int>(x->integer < y->integer ? -1 : x->integer > y->integer);
    if (std::isnan(x->real) || std::isnan(y->real)) return std::optional<int>();
    return std::optional<int>(x->real < y->real ? -1 : x->real > y->real);
  }
  TRY(work.spend_bytes(std::min(a.weight(), b.weight())));
  if (a.text() && b.text())  // UTF-8 sorts in the order of code points
    return std::optional<int>(a.text()->compare(*b.text()));
  if (!a.list() || !b.list() || a.is_tuple() != b.is_tuple())
    return fault(fmt::format("{} {} {} has no meaning", type_name(a), op, type_name(b)));
  const size_t shared = std::min(a.list()->size(), b.list()->size());
  for (size_t i = 0; i < shared; ++i) {
    if (!equal((*a.list())[i], (*b.list())[i])) return order_of(op, (*a.list())[i], (*b.list())[i], work);
  }
  return std::optional<int>(a.list()->size() < b.list()->size() ? -1 : a.list()->size() > b.list()->size());
}

}  // namespace

Result<bool> compare(std::string_view op, const Value& a, const Value& b, Work& work) {
  if (op == "==" || op == "!=") {
    TRY(work.spend_bytes(std::min(a.weight(), b.weight())));
    return equal(a, b) == (op == "==");
  }
  if (op == "in") return contains(a, b, work);
  if (op == "not in") {
    TRY_ASSIGN(const bool there, contains(a, b, work));
    return !there;
  }
  TRY_ASSIGN(const std::optional<int> order, order_of(op, a, b, work));
  if (!order) return false;
  return op == "<" ? *order < 0 : op == "<=" ? *order <= 0 : op == ">" ? *order > 0 : *order >= 0;
}

}  // namespace tidepool::jinja
