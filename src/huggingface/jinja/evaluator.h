// Evaluator runs a parsed template by walking its syntax tree.
#pragma once

#include <ctime>
#include <string>
#include <unordered_map>
#include <vector>

#include "huggingface/jinja/arguments.h"
#include "huggingface/jinja/syntax.h"
#include "huggingface/jinja/template.h"

namespace tidepool::jinja {

// Adds the line of the template to an error: "LINE: reason".
Error at(u32 line, const Error&);

// Names and their values. An inner scope sees the outer scopes; its own names hide theirs.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  // `walked` grows by the scopes that were searched.
  const Value* find(std::string_view name, u64* walked) const;
  void set(std::string_view name, Value value) { values_.set(std::string(name), std::move(value)); }

 private:
  const Scope* outer_;
  Dict values_;
};

struct Macro {
  const Stmt* definition;
  const Scope* scope;  // scope of the definition
};

class Evaluator {
 public:
  // `messages`: the elements whose turns are recorded; may be null.
  Evaluator(const std::tm& now, const List* messages, Rendered& out, u64 steps_allowed);
  u64 steps() const { return work_.steps(); }

  enum class Flow : u8 { on, leave, again };
  // Error: "LINE: reason".
  Result<Flow> run(const Block&, Scope&, std::string& out);

 private:
  Result<Flow> run_one(const Stmt&, Scope&, std::string& out);
  Result<Flow> run_loop(const Stmt&, Scope&, std::string& out);
  Result<Flow> run_turn(const Stmt&, const Value& item, Scope&, std::string& out);
  Result<void> run_set(const Stmt&, Scope&);
  Result<void> set_target(const Stmt&, Value, Scope&);
  Result<Flow> run_with(const Stmt&, Scope&, std::string& out);
  Result<Value> captured(const Stmt&, Scope&);
  Result<void> write(std::string_view, u32 line, std::string& out);
  Result<Flow> run_items(const Stmt&, std::shared_ptr<const List>, u32 depth, const Scope&, std::string& out);
  Result<void> assign(const Stmt&, const Value&, Scope&);
  Result<Flow> run_generation(const Stmt&, Scope&, std::string& out);
  Result<std::shared_ptr<const List>> loop_items(const Stmt&, const Value& of, const Scope&);

  Result<Value> eval(const Expr&, const Scope&);
  Result<Value> eval_kind(const Expr&, const Scope&);
  Result<Value> eval_name(const Expr&, const Scope&);
  Result<Value> eval_list(const Expr&, const Scope&);
  Result<Value> eval_dict(const Expr&, const Scope&);
  Result<Value> eval_attribute(const Expr&, const Scope&);
  Result<Value> eval_slice(const Expr&, const Scope&);
  Result<Value> eval_binary(const Expr&, const Scope&);
  Result<Value> eval_comparison(const Expr&, const Scope&);
  Result<Value> eval_unary(const Expr&, const Scope&);
  Result<Value> eval_call(const Expr&, const Scope&, const Macro* caller = nullptr);
  Result<Value> eval_loop_call(const Expr&, const Loop&, const Arguments&);
  Result<Value> eval_loop_method(const Expr&, const Loop&, const Arguments&);
  Result<Value> eval_method(const Expr&, const Scope&);
  Result<Value> call_function(Function, const Arguments&);
  Result<Value> call_macro(const Macro&, const Arguments&, u32 line, const Macro* caller);
  Result<Value> run_macro(const Macro&, const Arguments&, u32 line, Scope&);
  Result<Arguments> arguments(const Expr&, size_t first_part, const Scope&);
  // Pays for a statement, an expression or a turn of a loop.
  Result<void> spend(u32 line, u64 steps = 1);
  Result<const Value*> find(const Scope&, std::string_view name, u32 line);

  const std::tm& now_;
  Rendered& out_;
  Work work_;
  u32 macros_ = 0;
  std::unordered_map<const Dict*, u64> messages_;  // to their indices
  bool in_turn_ = false;
};

}  // namespace tidepool::jinja
