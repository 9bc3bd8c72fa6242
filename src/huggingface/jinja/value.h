// Value is the result of a template expression. Values are immutable and cheap to copy, as in the sandbox
// that chat templates are written for; only a namespace can change.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.h"

namespace tidepool::jinja {

class Value;
struct Macro;

using List = std::vector<Value>;

// Map that keeps the order of insertion. Most hold few keys: their lookup is a linear search.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  void set(std::string key, Value value);  // in place if the key exists
  // REQUIRES: the key does not exist yet.
  void append(std::string key, Value value);
  const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }

 private:
  const u64* place(std::string_view key) const;
  std::vector<std::pair<std::string, Value>> entries_;
  std::unordered_map<std::string, u64> places_;  // by key; empty while there are few
};

// A name or attribute that does not exist: prints as nothing, is false, has no elements. Any other use is an
// error.
struct Undefined {
  std::string what;  // "'tools' is undefined"
};
struct None {};
struct Namespace {
  Dict values;
};
// An integer beyond 64 bits with a sign. It prints as it was written; arithmetic with it is refused.
struct LargeInteger {
  std::string digits;
};
class Scope;
struct Stmt;
// Variable `loop` in the body of a `for`.
struct Loop {
  std::shared_ptr<const List> items;
  std::shared_ptr<std::vector<Value>> changed;  // arguments of the last loop.changed(...) of all turns
  u64 at = 0;
  u32 depth = 1;
  const Stmt* recursive = nullptr;  // the statement, if the body may call loop(...)
  const Scope* scope = nullptr;     // around the statement
};
// Iterator of Python, as filters such as `map` and `select` return: it is true, has no length and no text,
// and can be walked over once.
struct Iterator {
  std::shared_ptr<const List> items;
  u64 at = 0;
};
enum class Function : u8 { raise_exception, strftime_now, range, make_namespace, dict };

// Kind of a list or text, for values that differ in little else.
enum class Look : u8 {
  plain,
  tuple,  // prints in round brackets and equals no list
  group,  // tuple of `groupby`, whose parts are also called grouper and list
  keys,   // of a mapping, as its methods give them: they have no places
  values,
  items,
  range,   // of numbers: it has no text here, and is added to nothing
  markup,  // text that is marked safe: what is added to it is escaped
};

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Held = std::variant<Undefined, None, bool, i64, double, Text, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Loop>, std::shared_ptr<const Macro>, Function,
                            std::shared_ptr<const LargeInteger>, std::shared_ptr<Iterator>>;

  Value() = default;  // undefined
  Value(Undefined v) : held_(std::move(v)) {}
  Value(None v) : held_(v) {}
  Value(bool v) : held_(v) {}
  Value(i64 v) : held_(v) {}
  Value(double v) : held_(v) {}
  Value(std::string v) : held_(std::make_shared<const std::string>(std::move(v))) {}
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(List v);
  static Value tuple(List v) { return looking(std::move(v), Look::tuple); }
  static Value looking(Value v, Look look);
  static Value iterator(List v);
  Value(Dict v);
  Value(std::shared_ptr<Namespace> v) : held_(std::move(v)), depth_(never_inside) {}
  Value(std::shared_ptr<const Loop> v) : held_(std::move(v)), depth_(never_inside) {}
  Value(std::shared_ptr<const Macro> v) : held_(std::move(v)), depth_(never_inside) {}
  Value(Function v) : held_(v) {}
  Value(LargeInteger v)
      : held_(std::make_shared<const LargeInteger>(std::move(v))),
        weight_(large_integer()->digits.size() + 8) {}

  const Held& held() const { return held_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
  bool is_none() const { return std::holds_alternative<None>(held_); }

  // Accessors.
  // RETURNS: null if the value is of another kind.
  const std::string* text() const;
  const List* list() const;  // also of a tuple
  Look look() const { return look_; }
  bool is_tuple() const { return look_ == Look::tuple || look_ == Look::group; }
  bool is_markup() const { return look_ == Look::markup; }
  const Dict* dict() const;
  const i64* integer() const { return std::get_if<i64>(&held_); }  // null for a bool
  const LargeInteger* large_integer() const;
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const double* real() const { return std::get_if<double>(&held_); }
  Namespace* space() const;
  const Loop* loop() const;
  Iterator* iterator() const;
  std::shared_ptr<const List> shared_list() const;

  // depth: how deep lists and dicts are nested. weight: about how many bytes the value takes as text; shared
  // parts count each time. A value that must not outlive its scope, or could contain itself, has the greatest
  // depth, so no value can hold it. The evaluator refuses values that exceed the limits, which bounds
  // recursion over values and the size of their output.
  static constexpr u32 depth_max = 64, never_inside = depth_max;
  static constexpr u64 weight_max = 16 * mib;
  u32 depth() const { return depth_; }
  u64 weight() const;
  bool fits() const { return depth_ < never_inside && weight() <= weight_max; }

 private:
  void weigh(const Value& part);

  Held held_ = Undefined{"a value is undefined"};
  Look look_ = Look::plain;
  u32 depth_ = 0;
  u64 weight_ = 8;  // of everything but text
};

bool is_true(const Value&);
bool equal(const Value&, const Value&);
// RETURNS: Python's name of the type: "str", "list", "undefined".
std::string_view type_name(const Value&);

// False: Python's text of the value is its place in memory ("<generator object at 0x7f...>").
bool has_text(const Value&);
// Python's str(value) and repr(value). A value without text gives "".
std::string to_text(const Value&);
std::string to_repr(const Value&);

// Python's repr(float): the shortest text that reads back as the same number: "1.0", "1e-05", "1e+16".
std::string real_text(double);

}  // namespace tidepool::jinja
