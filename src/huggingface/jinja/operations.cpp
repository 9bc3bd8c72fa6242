// Operations follow Python's rules for numbers, indices and missing values.
#include "huggingface/jinja/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

// A list or tuple, whichever `like` is.
Value row_like(const Value& like, List items) {
  return like.is_tuple() ? Value::tuple(std::move(items)) : Value(std::move(items));
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

Result<Value> integers(std::string_view op, i64 a, i64 b) {
  i64 out = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &out);
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
  if (b == 0) return fault("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> repeated(const Value& what, i64 times) {
  const u64 count = times < 0 ? 0 : static_cast<u64>(times);
  if (count > 0 && what.weight() > Value::weight_max / count)
    return fault(fmt::format("{} times a {} is too long", count, type_name(what)));
  if (what.text()) {
    std::string out;
    for (u64 i = 0; i < count; ++i) out += *what.text();
    return Value(std::move(out));
  }
  List out;
  for (u64 i = 0; i < count; ++i) out.insert(out.end(), what.list()->begin(), what.list()->end());
  return row_like(what, std::move(out));
}

Result<bool> contains(const Value& part, const Value& whole) {
  if (whole.is_undefined()) return false;
  if (whole.text()) {
    if (part.is_undefined()) return undefined_fault(part);
    if (part.text()) return whole.text()->find(*part.text()) != std::string::npos;
    return fault(fmt::format("'in' cannot search a text for a {}", type_name(part)));
  }
  if (whole.dict()) return part.text() && whole.dict()->find(*part.text()) != nullptr;
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
  if (name == "depth") return Value(i64{1});  // recursive loops, which could be deeper, are refused
  if (name == "depth0") return Value(i64{0});
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
  const Dict* dict = v.space() ? &v.space()->values : v.dict();
  const Value* found = dict ? dict->find(name) : nullptr;
  return found ? *found : missing(name, v);
}

Result<Value> item_of(const Value& v, const Value& at) {
  if (v.is_undefined()) return undefined_fault(v);
  if (at.is_undefined()) return undefined_fault(at);
  if (at.text()) return attribute_of(v, *at.text());
  const auto number = number_of(at);
  if (number && number->whole && v.list()) {
    const auto found = place(number->integer, v.list()->size());
    return found ? (*v.list())[*found] : missing(to_text(at), v);
  }
  if (number && number->whole && v.text()) {
    const auto found = place(number->integer, count_code_points(*v.text()));
    if (!found) return missing(to_text(at), v);
    const u64 begin = byte_of_code_point(*v.text(), *found);
    u32 bytes = 1;
    code_point_at(*v.text(), begin, &bytes);
    return Value(v.text()->substr(begin, bytes));
  }
  return missing(to_text(at), v);
}

Result<Value> slice_of(const Value& v, const Value* from, const Value* to, const Value* step_value) {
  if (v.is_undefined()) return undefined_fault(v);
  if (!v.list() && !v.text()) return fault(fmt::format("a {} has no slices", type_name(v)));
  for (const Value* bound : {from, to, step_value}) {
    if (bound && bound->is_undefined()) return undefined_fault(*bound);
    if (bound && !bound->is_none() && !bound->integer())
      return fault(fmt::format("the bounds of a slice must be integers, not a {}", type_name(*bound)));
  }
  const auto given = [](const Value* bound) { return bound && bound->integer(); };
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
  return v.list() ? row_like(v, std::move(items)) : Value(std::move(text));
}

Result<std::shared_ptr<const List>> elements_of(const Value& v) {
  if (v.list()) return v.shared_list();
  if (v.is_undefined()) return std::make_shared<const List>();
  if (v.text()) return std::make_shared<const List>(characters(*v.text()));
  if (!v.dict()) return fault(fmt::format("a {} has no elements to walk over", type_name(v)));
  List keys;
  for (const auto& [key, value] : v.dict()->entries()) keys.emplace_back(key);
  return std::make_shared<const List>(std::move(keys));
}

Result<Value> binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "~") return Value(to_text(a) + to_text(b));
  if (a.is_undefined()) return undefined_fault(a);
  if (b.is_undefined()) return undefined_fault(b);
  const auto x = number_of(a), y = number_of(b);
  if (x && y)
    return x->whole && y->whole && op != "/" ? integers(op, x->integer, y->integer)
                                             : reals(op, x->real, y->real);
  if (op == "+" && a.text() && b.text()) return Value(*a.text() + *b.text());
  if (op == "+" && a.list() && b.list() && a.is_tuple() == b.is_tuple()) {
    List out = *a.list();
    out.insert(out.end(), b.list()->begin(), b.list()->end());
    return row_like(a, std::move(out));
  }
  if (op == "*" && (a.text() || a.list()) && y && y->whole) return repeated(a, y->integer);
  if (op == "*" && (b.text() || b.list()) && x && x->whole) return repeated(b, x->integer);
  if (op == "%" && a.text()) return fault("formatting with % is outside of the Jinja that Tidepool supports");
  return fault(fmt::format("{} {} {} has no meaning", type_name(a), op, type_name(b)));
}

Result<Value> negative(const Value& v) {
  if (v.is_undefined()) return undefined_fault(v);
  const auto x = number_of(v);
  if (!x) return fault(fmt::format("a {} has no negative", type_name(v)));
  return x->whole ? integers("-", 0, x->integer) : Result<Value>(Value(-x->real));
}

Result<bool> compare(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in") return contains(a, b);
  if (op == "not in") {
    TRY_ASSIGN(const bool there, contains(a, b));
    return !there;
  }
  if (a.is_undefined()) return undefined_fault(a);
  if (b.is_undefined()) return undefined_fault(b);
  const auto x = number_of(a), y = number_of(b);
  int order = 0;
  if (x && y) {
    if (x->whole && y->whole) {
      order = x->integer < y->integer ? -1 : x->integer > y->integer;
    } else {
      if (std::isnan(x->real) || std::isnan(y->real)) return false;
      order = x->real < y->real ? -1 : x->real > y->real;
    }
  } else if (a.text() && b.text()) {
    order = a.text()->compare(*b.text());  // UTF-8 sorts in the order of code points
  } else {
    return fault(fmt::format("{} {} {} has no meaning", type_name(a), op, type_name(b)));
  }
  return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
}

}  // namespace tidepool::jinja
