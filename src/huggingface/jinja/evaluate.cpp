// Evaluates expressions of a template.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <clocale>

#include "huggingface/jinja/evaluator.h"
#include "huggingface/jinja/names.h"
#include "huggingface/jinja/operations.h"

namespace tidepool::jinja {

namespace {

constexpr u64 elements_per_step = 8;
constexpr u64 bytes_per_step = 64;  // of a new value
constexpr i64 range_max = 100'000;  // as in Jinja's sandbox
constexpr u32 macros_max = 16;      // nested calls

template <class T>
Result<T> at(u32 line, Result<T> result) {
  if (result) return result;
  return jinja::at(line, result.error());
}

Result<Value> as_value(Result<bool> truth) {
  if (!truth) return truth.error();
  return Value(*truth);
}

Result<Value> strftime_now(const std::tm& now, const std::string& format) {
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  if (format.empty()) return Value("");
  std::string out(format.size() * 32 + 256, '\0');
  out.resize(::strftime_l(out.data(), out.size(), format.c_str(), &now, plain));
  return Value(std::move(out));
}

Result<Value> range(const Arguments& a) {
  if (a.places.empty() || a.places.size() > 3 || !a.names.empty())
    return fault("range takes one to three integers");
  const size_t count = a.places.size();
  i64 begin = 0, end = 0, step = 1;
  if (count == 1) {
    TRY_ASSIGN(end, a.integer_or(0, "stop", 0));
  } else {
    TRY_ASSIGN(begin, a.integer_or(0, "start", 0));
    TRY_ASSIGN(end, a.integer_or(1, "stop", 0));
    TRY_ASSIGN(step, a.integer_or(2, "step", 1));
  }
  if (step == 0) return fault("range: step is 0");
  List out;
  for (i64 i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<i64>(out.size()) == range_max)
      return fault(fmt::format("range: more than {} numbers", range_max));
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value(std::move(out));
}

Result<Dict> dict_of(const Arguments& a) {
  Dict out;
  if (a.places.size() > 1) return fault("at most one argument without a name is allowed");
  if (!a.places.empty()) {
    if (!a.places[0].dict())
      return fault(fmt::format("must be given a mapping, not {}", type_name(a.places[0])));
    out = *a.places[0].dict();
  }
  for (const auto& [name, value] : a.names) out.set(name, value);
  return out;
}

// Steps of searching through a value.
u64 look_up_steps(const Value& v) {
  if (v.list()) return v.list()->size() / elements_per_step + v.weight() / bytes_per_step;
  if (v.dict()) return v.dict()->entries().size() / elements_per_step;
  return v.text() ? v.text()->size() / bytes_per_step : 0;
}

}  // namespace

Error at(u32 line, const Error& e) { return {e.kind, fmt::format("{}: {}", line, e.message)}; }

Result<void> Evaluator::spend(u32 line, u64 steps) {
  steps_ += steps;
  if (steps_ > steps_allowed_)
    return at(line, fault("the template takes too many steps; check its nested loops"));
  return {};
}

Result<Value> Evaluator::eval(const Expr& e, const Scope& scope) {
  TRY(spend(e.line));
  TRY_ASSIGN(Value value, eval_kind(e, scope));
  const bool made = e.kind != ExprKind::constant && e.kind != ExprKind::name &&
                    e.kind != ExprKind::attribute && e.kind != ExprKind::item;
  if (made) TRY(spend(e.line, value.weight() / bytes_per_step));
  if (!value.fits() && (value.text() || value.list() || value.dict()))
    return at(e.line, fault(fmt::format("a {} becomes too large, or holds a value that cannot be stored",
                                        type_name(value))));
  return value;
}

Result<Value> Evaluator::eval_kind(const Expr& e, const Scope& scope) {
  switch (e.kind) {
    case ExprKind::constant:
      return e.constant;
    case ExprKind::name:
      return eval_name(e, scope);
    case ExprKind::list:
    case ExprKind::tuple:
      return eval_list(e, scope);
    case ExprKind::dict:
      return eval_dict(e, scope);
    case ExprKind::attribute:
      return eval_attribute(e, scope);
    case ExprKind::slice:
      return eval_slice(e, scope);
    case ExprKind::call:
      return eval_call(e, scope);
    case ExprKind::method:
      return eval_method(e, scope);
    case ExprKind::unary:
      return eval_unary(e, scope);
    case ExprKind::binary:
      return eval_binary(e, scope);
    case ExprKind::comparison:
      return eval_comparison(e, scope);
    case ExprKind::item: {
      TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
      TRY_ASSIGN(const Value key, eval(*e.parts[1], scope));
      TRY(spend(e.line, look_up_steps(of)));
      return at(e.line, item_of(of, key));
    }
    case ExprKind::filter: {
      TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
      TRY_ASSIGN(const Arguments given, arguments(e, 1, scope));
      return at(e.line, apply_filter(e.text, of, given));
    }
    case ExprKind::test: {
      TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
      TRY_ASSIGN(const Arguments given, arguments(e, 1, scope));
      return at(e.line, as_value(apply_test(e.text, of, given)));
    }
    case ExprKind::both:
    case ExprKind::either: {
      Value value;
      for (const ExprPtr& part : e.parts) {
        TRY_ASSIGN(value, eval(*part, scope));
        if (is_true(value) == (e.kind == ExprKind::either)) break;
      }
      return value;
    }
    case ExprKind::choice: {
      TRY_ASSIGN(const Value condition, eval(*e.parts[1], scope));
      if (is_true(condition)) return eval(*e.parts[0], scope);
      if (e.parts[2]) return eval(*e.parts[2], scope);
      return Value(Undefined{"an 'if' without 'else' has no value"});
    }
  }
  return Value();
}

Result<Value> Evaluator::eval_name(const Expr& e, const Scope& scope) {
  if (const Value* found = scope.find(e.text)) return *found;
  if (const auto function = function_named(e.text)) return Value(*function);
  return Value(Undefined{fmt::format("'{}' is undefined", e.text)});
}

Result<Value> Evaluator::eval_list(const Expr& e, const Scope& scope) {
  List out;
  for (const ExprPtr& part : e.parts) {
    TRY_ASSIGN(Value item, eval(*part, scope));
    out.push_back(std::move(item));
  }
  return e.kind == ExprKind::tuple ? Value::tuple(std::move(out)) : Value(std::move(out));
}

Result<Value> Evaluator::eval_dict(const Expr& e, const Scope& scope) {
  Dict out;
  for (size_t i = 0; i < e.parts.size(); i += 2) {
    TRY_ASSIGN(const Value key, eval(*e.parts[i], scope));
    TRY_ASSIGN(Value value, eval(*e.parts[i + 1], scope));
    if (!key.text())
      return at(e.line, fault(fmt::format("keys of a mapping must be texts here, not {}", type_name(key))));
    out.set(*key.text(), std::move(value));
  }
  return Value(std::move(out));
}

Result<Value> Evaluator::eval_attribute(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
  if (of.is_undefined()) return at(e.line, undefined_fault(of));
  // As in Python, a method hides a key of the same name, so the template would not get the key.
  constexpr std::array<std::string_view, 11> methods = {"get",        "items",   "keys",    "values",
                                                        "pop",        "update",  "copy",    "clear",
                                                        "setdefault", "popitem", "fromkeys"};
  if (of.dict() && std::ranges::find(methods, e.text) != methods.end())
    return at(e.line, fault(fmt::format("'.{}' is a method of a mapping; its key is written ['{}']", e.text,
                                        e.text)));
  return attribute_of(of, e.text);
}

Result<Value> Evaluator::eval_slice(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!e.parts[i + 1]) continue;
    TRY_ASSIGN(bounds[i], eval(*e.parts[i + 1], scope));
    given[i] = &bounds[i];
  }
  return at(e.line, slice_of(of, given[0], given[1], given[2]));
}

Result<Value> Evaluator::eval_binary(const Expr& e, const Scope& scope) {
  if (e.text == "~") {
    std::string out;
    for (const ExprPtr& part : e.parts) {
      TRY_ASSIGN(const Value value, eval(*part, scope));
      out += to_text(value);
      if (out.size() > Value::weight_max) return at(e.line, fault("a str becomes too large"));
    }
    return Value(std::move(out));
  }
  TRY_ASSIGN(const Value left, eval(*e.parts[0], scope));
  TRY_ASSIGN(const Value right, eval(*e.parts[1], scope));
  return at(e.line, binary(e.text, left, right));
}

Result<Value> Evaluator::eval_comparison(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(Value left, eval(*e.parts[0], scope));
  for (size_t i = 0; i < e.texts.size(); ++i) {
    TRY_ASSIGN(Value right, eval(*e.parts[i + 1], scope));
    const bool looks_up = e.texts[i] == "in" || e.texts[i] == "not in";
    TRY(spend(e.line,
              looks_up ? look_up_steps(right) : std::min(left.weight(), right.weight()) / bytes_per_step));
    TRY_ASSIGN(const bool holds, at(e.line, compare(e.texts[i], left, right)));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::eval_unary(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value value, eval(*e.parts[0], scope));
  if (e.text == "not") return Value(!is_true(value));
  TRY_ASSIGN(Value minus, at(e.line, negative(value)));
  return e.text == "-" ? minus : value;
}

Result<Arguments> Evaluator::arguments(const Expr& e, size_t first_part, const Scope& scope) {
  Arguments out;
  for (size_t i = first_part; i < e.parts.size(); ++i) {
    TRY_ASSIGN(Value value, eval(*e.parts[i], scope));
    out.places.push_back(std::move(value));
  }
  for (const Keyword& keyword : e.keywords) {
    TRY_ASSIGN(Value value, eval(*keyword.value, scope));
    out.names.emplace_back(keyword.name, std::move(value));
  }
  return out;
}

Result<Value> Evaluator::eval_call(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Arguments given, arguments(e, 0, scope));
  TRY_ASSIGN(const Value callee, eval_name(e, scope));
  if (const auto* function = std::get_if<Function>(&callee.held()))
    return at(e.line, call_function(*function, given));
  if (const auto* macro = std::get_if<std::shared_ptr<const Macro>>(&callee.held()))
    return call_macro(**macro, given, e.line);
  return at(e.line, callee.is_undefined() ? undefined_fault(callee)
                                          : fault(fmt::format("'{}' is a {}, which cannot be called", e.text,
                                                              type_name(callee))));
}

Result<Value> Evaluator::eval_method(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
  TRY_ASSIGN(const Arguments given, arguments(e, 1, scope));
  if (!of.loop()) return at(e.line, call_method(of, e.text, given));
  if (e.text != "cycle" || given.places.empty())
    return at(e.line, fault("only loop.cycle(...) can be called, with values"));
  return given.places[of.loop()->at % given.places.size()];
}

Result<Value> Evaluator::call_function(Function function, const Arguments& a) {
  switch (function) {
    case Function::raise_exception: {
      TRY_ASSIGN(const std::string message, a.text(0, "message"));
      return fault("the template refuses this: " + message);
    }
    case Function::strftime_now: {
      TRY_ASSIGN(const std::string format, a.text(0, "format"));
      return strftime_now(now_, format);
    }
    case Function::range:
      return range(a);
    case Function::dict: {
      TRY_ASSIGN(Dict out, dict_of(a));
      return Value(std::move(out));
    }
    case Function::make_namespace:
      break;
  }
  TRY_ASSIGN(Dict values, dict_of(a));
  for (const auto& [name, value] : values.entries()) {
    if (value.depth() >= Value::never_inside)
      return fault(fmt::format("a {} cannot be stored in a namespace", type_name(value)));
  }
  return Value(std::make_shared<Namespace>(Namespace{std::move(values)}));
}

// Calls a macro. An error inside of it already carries its line.
Result<Value> Evaluator::call_macro(const Macro& macro, const Arguments& a, u32 line) {
  const Stmt& definition = *macro.definition;
  if (macros_ == macros_max)
    return at(line, fault(fmt::format("macros call each other more than {} deep", macros_max)));
  if (a.places.size() > definition.names.size())
    return at(line, fault(fmt::format("macro '{}' takes {} arguments, not {}", definition.text,
                                      definition.names.size(), a.places.size())));
  for (const auto& [name, value] : a.names) {
    if (std::ranges::find(definition.names, name) == definition.names.end())
      return at(line, fault(fmt::format("macro '{}' has no argument '{}'", definition.text, name)));
  }
  Scope scope(macro.scope);
  for (size_t i = 0; i < definition.names.size(); ++i) {
    const std::string& name = definition.names[i];
    if (const Value* given = a.get(i, name)) {
      scope.set(name, *given);
    } else if (definition.defaults[i]) {
      TRY_ASSIGN(Value preset, eval(*definition.defaults[i], scope));
      scope.set(name, std::move(preset));
    } else {
      scope.set(name, Undefined{fmt::format("parameter '{}' was not given", name)});
    }
  }
  std::string out;
  ++macros_;
  TRY(run(definition.body, scope, out));
  --macros_;
  return Value(std::move(out));
}

}  // namespace tidepool::jinja
