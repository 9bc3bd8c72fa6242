// Evaluates expressions of a template.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <clocale>

#include "huggingface/jinja/evaluator.h"
#include "huggingface/jinja/names.h"
#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

constexpr u64 scopes_per_step = 8;
constexpr size_t format_bytes_max = 256, date_bytes_max = 4096;
constexpr size_t message_bytes_max = 1000;  // of raise_exception
constexpr i64 range_max = 100'000;          // as in Jinja's sandbox
constexpr u32 macros_max = 16;              // nested calls

template <class T>
Result<T> at(u32 line, Result<T> result) {
  if (result) return result;
  return jinja::at(line, result.error());
}

Result<Value> as_value(Result<bool> truth) {
  if (!truth) return truth.error();
  return Value(*truth);
}

// datetime.now().strftime(): without a time zone, on a full second.
Result<Value> strftime_now(const std::tm& now, const std::string& format) {
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  if (format.size() > format_bytes_max)
    return fault(fmt::format("strftime_now: the format has {} bytes; at most {} are supported", format.size(),
                             format_bytes_max));
  std::string form;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'f') form += "000000";
    if (next != 'f' && next != 'z' && next != 'Z') form += format[i];
    if (next == '%') form += next;
    if (next == 'f' || next == 'z' || next == 'Z' || next == '%') ++i;
  }
  std::string out(date_bytes_max, '\0');
  // The blank tells an empty date from one that is too long.
  const size_t size = ::strftime_l(out.data(), out.size(), (form + ' ').c_str(), &now, plain);
  if (size == 0) return fault(fmt::format("strftime_now: the date is longer than {} bytes", date_bytes_max));
  out.resize(size - 1);
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
  const u64 span = step > 0 ? static_cast<u64>(end) - static_cast<u64>(begin)
                            : static_cast<u64>(begin) - static_cast<u64>(end);
  if (step > 0 ? begin < end : begin > end)
    TRY(a.work.spend_elements(
        std::min<u64>(span / (step > 0 ? static_cast<u64>(step) : ~static_cast<u64>(step) + 1), range_max)));
  for (i64 i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<i64>(out.size()) == range_max)
      return fault(fmt::format("range: more than {} numbers", range_max));
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::looking(Value(std::move(out)), Look::range);
}

Result<Dict> dict_of(const Arguments& a) {
  Dict out;
  if (a.places.size() > 1) return fault("at most one argument without a name is allowed");
  if (!a.places.empty()) {
    TRY(pay_shallow(a.work, a.places[0]));
    if (a.places[0].dict()) {
      out = *a.places[0].dict();
    } else if (a.places[0].list() || a.places[0].iterator()) {
      TRY_ASSIGN(const auto pairs, elements_of(a.places[0], a.work));
      for (const Value& pair : *pairs) {
        if (!pair.list() || pair.list()->size() != 2 || !(*pair.list())[0].text())
          return fault("must be given pairs of a text and a value");
        out.set(*(*pair.list())[0].text(), (*pair.list())[1]);
      }
    } else {
      return fault(fmt::format("must be given a mapping, not {}", type_name(a.places[0])));
    }
  }
  for (const auto& [name, value] : a.names) out.set(name, value);
  return out;
}

}  // namespace

Error at(u32 line, const Error& e) { return {e.kind, fmt::format("{}: {}", line, e.message)}; }

Result<void> Evaluator::spend(u32 line, u64 steps) { return at(line, work_.spend(steps)); }

Result<Value> Evaluator::eval(const Expr& e, const Scope& scope) {
  TRY(spend(e.line));
  TRY_ASSIGN(Value value, eval_kind(e, scope));
  if (value.is_undefined()) TRY(spend(e.line, 3));  // its message
  if (!value.fits() && (value.text() || value.list() || value.dict() || value.iterator()))
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
      return at(e.line, item_of(of, key, work_));
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

Result<const Value*> Evaluator::find(const Scope& scope, std::string_view name, u32 line) {
  u64 walked = 0;
  const Value* found = scope.find(name, &walked);
  TRY(spend(line, walked / scopes_per_step));
  return found;
}

Result<Value> Evaluator::eval_name(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value* found, find(scope, e.text, e.line));
  if (found) return *found;
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
  return at(e.line, slice_of(of, given[0], given[1], given[2], work_));
}

Result<Value> Evaluator::eval_binary(const Expr& e, const Scope& scope) {
  if (e.text == "~") {
    std::string out;
    for (const ExprPtr& part : e.parts) {
      TRY_ASSIGN(const Value value, eval(*part, scope));
      TRY_ASSIGN(const std::string text, at(e.line, text_for(value, work_)));
      out += text;
      if (out.size() > Value::weight_max) return at(e.line, fault("a str becomes too large"));
    }
    return Value(std::move(out));
  }
  TRY_ASSIGN(const Value left, eval(*e.parts[0], scope));
  TRY_ASSIGN(const Value right, eval(*e.parts[1], scope));
  return at(e.line, binary(e.text, left, right, work_));
}

Result<Value> Evaluator::eval_comparison(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(Value left, eval(*e.parts[0], scope));
  for (size_t i = 0; i < e.texts.size(); ++i) {
    TRY_ASSIGN(Value right, eval(*e.parts[i + 1], scope));
    TRY_ASSIGN(const bool holds, at(e.line, compare(e.texts[i], left, right, work_)));
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
  Arguments out{work_, {}, {}};
  for (size_t i = first_part; i < e.parts.size(); ++i) {
    TRY_ASSIGN(Value value, eval(*e.parts[i], scope));
    out.places.push_back(std::move(value));
  }
  for (const Keyword& keyword : e.keywords) {
    TRY_ASSIGN(Value value, eval(*keyword.value, scope));
    out.names.emplace_back(keyword.name, std::move(value));
  }
  if (e.spread) {
    TRY_ASSIGN(const Value value, eval(*e.spread, scope));
    TRY_ASSIGN(const auto items, at(e.line, elements_of(value, work_)));
    TRY(spend(e.line, items->size()));
    out.places.insert(out.places.end(), items->begin(), items->end());
  }
  if (e.spread_names) {
    TRY_ASSIGN(const Value value, eval(*e.spread_names, scope));
    if (!value.dict()) return at(e.line, fault(fmt::format("** needs a mapping, not {}", type_name(value))));
    TRY(spend(e.line, value.dict()->entries().size()));
    for (const auto& [name, item] : value.dict()->entries()) {
      if (out.named(name)) return at(e.line, fault(fmt::format("argument '{}' is given twice", name)));
      out.names.emplace_back(name, item);
    }
  }
  return out;
}

Result<Value> Evaluator::eval_call(const Expr& e, const Scope& scope, const Macro* caller) {
  TRY_ASSIGN(const Arguments given, arguments(e, 0, scope));
  TRY_ASSIGN(const Value callee, eval_name(e, scope));
  if (const auto* macro = std::get_if<std::shared_ptr<const Macro>>(&callee.held()))
    return call_macro(**macro, given, e.line, caller);
  if (caller) return at(e.line, fault("{% call %} can call macros only"));
  if (const auto* function = std::get_if<Function>(&callee.held()))
    return at(e.line, call_function(*function, given));
  if (callee.loop()) return eval_loop_call(e, *callee.loop(), given);
  return at(e.line, callee.is_undefined() ? undefined_fault(callee)
                                          : fault(fmt::format("'{}' is a {}, which cannot be called", e.text,
                                                              type_name(callee))));
}

// loop(items) in a recursive loop: the text of the loop over these items.
Result<Value> Evaluator::eval_loop_call(const Expr& e, const Loop& loop, const Arguments& given) {
  if (loop.recursive == nullptr) return at(e.line, fault("only a loop that is recursive can be called"));
  if (given.places.size() != 1 || !given.names.empty()) return at(e.line, fault("loop(...) takes one list"));
  if (macros_ == macros_max)
    return at(e.line, fault(fmt::format("loops call each other more than {} deep", macros_max)));
  TRY_ASSIGN(const auto items, loop_items(*loop.recursive, given.places[0], *loop.scope));
  std::string out;
  ++macros_;
  TRY(run_items(*loop.recursive, items, loop.depth + 1, *loop.scope, out));
  --macros_;
  return Value(std::move(out));
}

Result<Value> Evaluator::eval_method(const Expr& e, const Scope& scope) {
  TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
  TRY_ASSIGN(const Arguments given, arguments(e, 1, scope));
  return of.loop() ? eval_loop_method(e, *of.loop(), given) : at(e.line, call_method(of, e.text, given));
}

Result<Value> Evaluator::eval_loop_method(const Expr& e, const Loop& loop, const Arguments& given) {
  if (e.text == "cycle" && !given.places.empty()) return given.places[loop.at % given.places.size()];
  if (e.text != "changed" || !given.names.empty())
    return at(e.line, fault("only loop.cycle(...) and loop.changed(...) can be called, with values"));
  bool changed = given.places.size() != loop.changed->size() || loop.at == 0;
  for (size_t i = 0; !changed && i < given.places.size(); ++i) {
    TRY_ASSIGN(changed, at(e.line, compare("!=", given.places[i], (*loop.changed)[i], work_)));
  }
  if (changed) {
    for (const Value& value : given.places) {
      if (!value.fits()) return at(e.line, fault(fmt::format("a {} cannot be stored", type_name(value))));
    }
    *loop.changed = given.places;
  }
  return Value(changed);
}

Result<Value> Evaluator::call_function(Function function, const Arguments& a) {
  switch (function) {
    case Function::raise_exception: {
      TRY_ASSIGN(std::string message, a.text(0, "message"));
      while (message.size() > message_bytes_max)
        message.resize(last_code_point(std::string_view(message).substr(0, message_bytes_max + 1)));
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
Result<Value> Evaluator::call_macro(const Macro& macro, const Arguments& a, u32 line, const Macro* caller) {
  const Stmt& definition = *macro.definition;
  if (macros_ == macros_max)
    return at(line, fault(fmt::format("macros call each other more than {} deep", macros_max)));
  TRY(spend(line, 2 + definition.names.size() * (1 + a.names.size() / 8)));
  if (a.places.size() > definition.names.size() && !definition.takes_more)
    return at(line, fault(fmt::format("macro '{}' takes {} arguments, not {}", definition.text,
                                      definition.names.size(), a.places.size())));
  Dict more_names;
  Value given_caller = caller ? Value(std::make_shared<const Macro>(*caller))
                              : Value(Undefined{"there is no caller: the macro is not called by {% call %}"});
  if (caller && !definition.takes_caller)
    return at(line, fault(fmt::format("macro '{}' calls no caller()", definition.text)));
  for (const auto& [name, value] : a.names) {
    const auto found = std::ranges::find(definition.names, name);
    if (found != definition.names.end()) {
      if (static_cast<size_t>(found - definition.names.begin()) < a.places.size())
        return at(line, fault(fmt::format("argument '{}' is given twice", name)));
    } else if (name == "caller" && definition.takes_caller) {
      given_caller = value;
    } else if (definition.takes_more_names) {
      if (!value.fits()) return at(line, fault(fmt::format("a {} cannot be stored", type_name(value))));
      more_names.set(name, value);
    } else {
      return at(line, fault(fmt::format("macro '{}' has no argument '{}'", definition.text, name)));
    }
  }
  Scope scope(macro.scope);
  if (definition.takes_caller && definition.text != "caller") scope.set("caller", std::move(given_caller));
  if (definition.takes_more_names) scope.set("kwargs", Value(std::move(more_names)));
  if (definition.takes_more) {
    const size_t named = std::min(definition.names.size(), a.places.size());
    Value more = Value::tuple(List(a.places.begin() + static_cast<i64>(named), a.places.end()));
    if (!more.fits())
      return at(line, fault("more arguments than a macro names must be values that can be stored"));
    scope.set("varargs", std::move(more));
  }
  return run_macro(macro, a, line, scope);
}

Result<Value> Evaluator::run_macro(const Macro& macro, const Arguments& a, u32 line, Scope& scope) {
  const Stmt& definition = *macro.definition;
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
  TRY(spend(line, 1));
  return Value(std::move(out));
}

}  // namespace tidepool::jinja
