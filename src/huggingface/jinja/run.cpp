// Executes statements; implements Template.
#include <fmt/format.h>

#include "base/text/utf8.h"
#include "huggingface/jinja/evaluator.h"
#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/parser.h"

namespace tidepool::jinja {

namespace {

constexpr u64 output_bytes_max = 64 * mib;

}  // namespace

const Value* Scope::find(std::string_view name, u64* walked) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    ++*walked;
    if (const Value* found = scope->values_.find(name)) return found;
  }
  return nullptr;
}

Result<Evaluator::Flow> Evaluator::run(const Block& block, Scope& scope, std::string& out) {
  for (const auto& statement : block) {
    TRY(spend(statement->line));
    TRY_ASSIGN(const Flow flow, run_one(*statement, scope, out));
    if (out.size() > output_bytes_max)
      return at(statement->line, fault(fmt::format("the text grows beyond {} bytes", output_bytes_max)));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<Evaluator::Flow> Evaluator::run_one(const Stmt& s, Scope& scope, std::string& out) {
  switch (s.kind) {
    case StmtKind::text:
      TRY(write(s.text, s.line, out));
      return Flow::on;
    case StmtKind::print: {
      TRY_ASSIGN(const Value value, eval(*s.value, scope));
      const Result<std::string> text = text_for(value, work_);
      if (!text) return at(s.line, text.error());
      TRY(write(*text, s.line, out));
      return Flow::on;
    }
    case StmtKind::with:
      return run_with(s, scope, out);
    case StmtKind::call: {
      const Macro caller{&s, &scope};
      TRY_ASSIGN(const Value text, eval_call(*s.value, scope, &caller));
      TRY(write(*text.text(), s.line, out));
      return Flow::on;
    }
    case StmtKind::filtered: {
      TRY_ASSIGN(const Value value, captured(s, scope));
      const Result<std::string> text = text_for(value, work_);
      if (!text) return at(s.line, text.error());
      TRY(write(*text, s.line, out));
      return Flow::on;
    }
    case StmtKind::condition: {
      TRY_ASSIGN(const Value value, eval(*s.value, scope));
      return run(is_true(value) ? s.body : s.otherwise, scope, out);
    }
    case StmtKind::loop:
      return run_loop(s, scope, out);
    case StmtKind::generation:
      return run_generation(s, scope, out);
    case StmtKind::leave:
      return Flow::leave;
    case StmtKind::again:
      return Flow::again;
    case StmtKind::macro:
      scope.set(s.text, std::make_shared<const Macro>(Macro{&s, &scope}));
      return Flow::on;
    default:
      TRY(run_set(s, scope));
      return Flow::on;
  }
}

Result<void> Evaluator::write(std::string_view text, u32 line, std::string& out) {
  const Result<void> paid = work_.spend_bytes(text.size());
  if (!paid) return at(line, paid.error());
  out += text;
  return {};
}

Result<Evaluator::Flow> Evaluator::run_with(const Stmt& s, Scope& scope, std::string& out) {
  Scope inner(&scope);
  for (size_t i = 0; i < s.names.size(); ++i) {
    TRY_ASSIGN(Value value, eval(*s.defaults[i], scope));  // values do not see each other
    inner.set(s.names[i], std::move(value));
  }
  return run(s.body, inner, out);
}

// RETURNS: the output of a body, through the filters of the block.
Result<Value> Evaluator::captured(const Stmt& s, Scope& scope) {
  std::string text;
  Scope inner(&scope);
  TRY(run(s.body, inner, text));
  if (!s.value) return Value(std::move(text));
  Scope filtered(&scope);
  filtered.set(block_output, Value(std::move(text)));
  return eval(*s.value, filtered);
}

Result<void> Evaluator::run_set(const Stmt& s, Scope& scope) {
  TRY_ASSIGN(Value value, s.kind == StmtKind::set_block ? captured(s, scope) : eval(*s.value, scope));
  return set_target(s, std::move(value), scope);
}

Result<void> Evaluator::set_target(const Stmt& s, Value value, Scope& scope) {
  if (s.text.empty()) return assign(s, value, scope);
  TRY_ASSIGN(const Value* target, find(scope, s.names[0], s.line));
  if (target == nullptr || !target->space())
    return at(s.line, fault(fmt::format("'{}.{}' can be set only if '{}' is a namespace", s.names[0], s.text,
                                        s.names[0])));
  if (value.depth() >= Value::never_inside)
    return at(s.line, fault(fmt::format("a {} cannot be stored in a namespace", type_name(value))));
  target->space()->values.set(s.text, std::move(value));
  return {};
}

// Assigns to one name, or unpacks the value into several names.
Result<void> Evaluator::assign(const Stmt& s, const Value& value, Scope& scope) {
  if (s.names.size() == 1) {
    scope.set(s.names[0], value);
    return {};
  }
  const Result<std::shared_ptr<const List>> items = elements_of(value, work_);
  if (!items) return at(s.line, items.error());
  if ((*items)->size() != s.names.size())
    return at(s.line, fault(fmt::format("{} values for {} names", (*items)->size(), s.names.size())));
  for (size_t i = 0; i < s.names.size(); ++i) scope.set(s.names[i], (**items)[i]);
  return {};
}

Result<std::shared_ptr<const List>> Evaluator::loop_items(const Stmt& s, const Value& of,
                                                          const Scope& scope) {
  const Result<std::shared_ptr<const List>> items = elements_of(of, work_);
  if (!items) return at(s.line, items.error());
  if (!s.filter) return *items;
  List kept;
  for (const Value& item : **items) {
    TRY(spend(s.line, 8));
    Scope inner(&scope);
    TRY(assign(s, item, inner));
    TRY_ASSIGN(const Value wanted, eval(*s.filter, inner));
    if (is_true(wanted)) kept.push_back(item);
  }
  return std::make_shared<const List>(std::move(kept));
}

Evaluator::Evaluator(const std::tm& now, const List* messages, Rendered& out, u64 steps_allowed)
    : now_(now), out_(out), work_(steps_allowed) {
  if (messages == nullptr) return;
  for (u64 i = 0; i < messages->size(); ++i) {
    if (const Dict* message = (*messages)[i].dict()) messages_.emplace(message, i);
  }
}

// Runs the body of a loop once, and records what it writes for a message.
Result<Evaluator::Flow> Evaluator::run_turn(const Stmt& s, const Value& item, Scope& scope,
                                            std::string& out) {
  const auto message = item.dict() ? messages_.find(item.dict()) : messages_.end();
  if (message == messages_.end() || in_turn_ || &out != &out_.text) return run(s.body, scope, out);
  const u64 begin = out.size();
  in_turn_ = true;
  Result<Flow> flow = run(s.body, scope, out);
  in_turn_ = false;
  if (out.size() > begin) out_.turns.push_back({message->second, {begin, out.size()}});
  return flow;
}

Result<Evaluator::Flow> Evaluator::run_loop(const Stmt& s, Scope& scope, std::string& out) {
  TRY_ASSIGN(const Value of, eval(*s.value, scope));
  TRY_ASSIGN(const std::shared_ptr<const List> items, loop_items(s, of, scope));
  if (items->empty()) return run(s.otherwise, scope, out);
  return run_items(s, items, 1, scope, out);
}

Result<Evaluator::Flow> Evaluator::run_items(const Stmt& s, std::shared_ptr<const List> items, u32 depth,
                                             const Scope& scope, std::string& out) {
  const auto changed = std::make_shared<std::vector<Value>>();
  for (u64 i = 0; i < items->size(); ++i) {
    TRY(spend(s.line, 8));
    Scope inner(&scope);  // variables of an iteration end with it
    inner.set("loop", std::make_shared<const Loop>(Loop{.items = items,
                                                        .changed = changed,
                                                        .at = i,
                                                        .depth = depth,
                                                        .recursive = s.recursive ? &s : nullptr,
                                                        .scope = &scope}));
    TRY(assign(s, (*items)[i], inner));
    TRY_ASSIGN(const Flow flow, run_turn(s, (*items)[i], inner, out));
    if (flow == Flow::leave) break;
  }
  return Flow::on;
}

Result<Evaluator::Flow> Evaluator::run_generation(const Stmt& s, Scope& scope, std::string& out) {
  if (&out != &out_.text)
    return at(s.line, fault("{% generation %} in a loop that is called has no place in the result"));
  const u64 begin = out.size();
  Scope inner(&scope);
  TRY(run(s.body, inner, out));
  out_.generations.push_back({begin, out.size()});
  return Flow::on;
}

Template::Template() = default;
Template::~Template() = default;

Result<std::unique_ptr<const Template>> Template::parse(std::string_view source, std::string name) {
  Utf8Checker utf8;
  std::optional<u64> bad = utf8.feed(std::as_bytes(std::span(source)));
  if (!bad) bad = utf8.finish();
  if (bad) return Error{ErrorKind::bad_input, fmt::format("{}: not UTF-8 at byte {}", name, *bad)};
  Result<Program> program = parse_template(source);
  if (!program) return Error{ErrorKind::bad_input, fmt::format("{}:{}", name, program.error().message)};
  std::unique_ptr<Template> out(new Template);
  out->name_ = std::move(name);
  out->program_ = std::make_unique<Program>(std::move(*program));
  return std::unique_ptr<const Template>(std::move(out));
}

bool Template::has_generation() const { return program_->has_generation; }

Result<Rendered> Template::render(const Dict& variables, const std::tm& now, u64* steps_left) const {
  Rendered out;
  Scope globals, scope(&globals);
  for (const auto& [name, value] : variables.entries()) globals.set(name, value);
  const Value* messages = variables.find("messages");
  Evaluator evaluator(now, messages ? messages->list() : nullptr, out,
                      steps_left ? std::min(*steps_left, steps_max) : steps_max);
  const Result<Evaluator::Flow> done = evaluator.run(program_->body, scope, out.text);
  if (steps_left) *steps_left -= std::min(*steps_left, evaluator.steps());
  if (!done) return Error{done.error().kind, fmt::format("{}:{}", name_, done.error().message)};
  return out;
}

}  // namespace tidepool::jinja
