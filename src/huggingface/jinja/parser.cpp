// StatementParser parses statements; ExpressionParser parses the expressions in them.
#include "huggingface/jinja/parser.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "huggingface/jinja/expression_parser.h"

namespace tidepool::jinja {

namespace {

constexpr u32 block_depth_max = 100;  // nested blocks
constexpr u64 source_bytes_max = mib;

using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 8> foreign = {"block", "extends",    "include", "import",
                                                     "from",  "autoescape", "trans",   "do"};

class StatementParser {
 public:
  explicit StatementParser(TokenReader& tokens) : tokens_(tokens), expressions_(tokens) {}

  Result<Program> run() {
    Program out;
    TRY_ASSIGN(out.body, block({}));
    for (const auto& [name, line] : expressions_.called()) {
      if (!bound_.contains(name))
        return TokenReader::fault_in(line,
                                     fmt::format("'{}' is called, but is neither a macro or variable of this "
                                                 "template nor one of the functions "
                                                 "raise_exception, strftime_now, range, namespace, dict",
                                                 name));
    }
    out.has_generation = has_generation_;
    return out;
  }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  StmtPtr make(StmtKind kind, u32 line) const {
    auto out = std::make_unique<Stmt>();
    out->kind = kind;
    out->line = line;
    return out;
  }

  // Parses statements up to a tag whose name is in `ends`. The tag's name is the next token then. Without
  // `ends`, parses up to the end of the template.
  Result<Block> block(Names ends) {
    if (++depth_ > block_depth_max)
      return tokens_.fault(fmt::format("blocks are nested more than {} deep", block_depth_max));
    Block out;
    while (!tokens_.is(TokenKind::end)) {
      const u32 line = tokens_.now().line;
      if (tokens_.is(TokenKind::text)) {
        out.push_back(make(StmtKind::text, line));
        out.back()->text = tokens_.take().text;
      } else if (tokens_.is(TokenKind::print_begin)) {
        tokens_.take();
        out.push_back(make(StmtKind::print, line));
        TRY_ASSIGN(out.back()->value, expressions_.tuple());
        if (!tokens_.is(TokenKind::print_end)) return tokens_.unexpected("'}}'");
        tokens_.take();
      } else {
        tokens_.take();  // the token {%
        if (!tokens_.is(TokenKind::name)) return tokens_.unexpected("the name of a block");
        if (std::ranges::find(ends, tokens_.now().text) != ends.end()) {
          --depth_;
          return out;
        }
        TRY_ASSIGN(StmtPtr next, statement(line));
        out.push_back(std::move(next));
      }
    }
    if (!ends.empty())
      return tokens_.fault(fmt::format("the template ends, but {{% {} %}} is missing", ends.back()));
    --depth_;
    return out;
  }

  Result<StmtPtr> statement(u32 line) {
    const std::string name = tokens_.take().text;
    if (name == "if") return condition(line);
    if (name == "for") return loop(line);
    if (name == "set") return set(line);
    if (name == "macro") return macro(line);
    if (name == "generation") return generation(line);
    if (name == "with") return with(line);
    if (name == "call") return call(line);
    if (name == "filter") return filtered(line);
    if (name == "break" || name == "continue") return leave(line, name);
    if (std::ranges::find(foreign, name) != foreign.end())
      return TokenReader::fault_in(
          line, fmt::format("the block '{}' is outside of the Jinja that Tidepool supports", name));
    return TokenReader::fault_in(
        line, fmt::format("the block '{}' is unknown, or ends a block that was not begun", name));
  }

  Result<StmtPtr> condition(u32 line) {
    StmtPtr out = make(StmtKind::condition, line);
    TRY_ASSIGN(out->value, expressions_.tuple());
    TRY(tokens_.expect_block_end());
    TRY_ASSIGN(out->body, block(std::array<std::string_view, 3>{"elif", "else", "endif"}));
    const u32 next_line = tokens_.now().line;
    if (tokens_.take_name("elif")) {
      if (++depth_ > block_depth_max)
        return tokens_.fault(fmt::format("more than {} elif in a row", block_depth_max));
      TRY_ASSIGN(StmtPtr next, condition(next_line));
      --depth_;
      out->otherwise.push_back(std::move(next));
      return out;
    }
    if (tokens_.take_name("else")) {
      TRY(tokens_.expect_block_end());
      TRY_ASSIGN(out->otherwise, block(std::array<std::string_view, 1>{"endif"}));
    }
    TRY(tokens_.expect_name("endif"));
    TRY(tokens_.expect_block_end());
    return out;
  }

  // Parses names separated by commas, with or without brackets.
  Result<std::vector<std::string>> targets() {
    std::vector<std::string> names;
    const bool brackets = tokens_.take_symbol("(");
    do {
      if (brackets ? tokens_.is_symbol(")") : tokens_.is_name("in")) break;
      TRY_ASSIGN(std::string name, expressions_name());
      names.push_back(std::move(name));
    } while (tokens_.take_symbol(","));
    if (brackets) TRY(tokens_.expect_symbol(")"));
    return names;
  }

  Result<std::string> expressions_name() {
    const u32 line = tokens_.now().line;
    TRY_ASSIGN(std::string name, tokens_.expect_any_name("a name"));
    constexpr std::array<std::string_view, 9> taken = {"true", "True", "false", "False", "none",
                                                       "None", "loop", "not",   "in"};
    if (std::ranges::find(taken, name) != taken.end())
      return TokenReader::fault_in(line, fmt::format("'{}' cannot be given a value", name));
    bound_.insert(name);
    return name;
  }

  Result<StmtPtr> loop(u32 line) {
    StmtPtr out = make(StmtKind::loop, line);
    TRY_ASSIGN(out->names, targets());
    TRY(tokens_.expect_name("in"));
    TRY_ASSIGN(out->value, expressions_.tuple_without_choice());
    if (tokens_.take_name("if")) {
      TRY_ASSIGN(out->filter, expressions_.expression());
    }
    out->recursive = tokens_.take_name("recursive");
    if (out->recursive) bound_.insert("loop");
    TRY(tokens_.expect_block_end());
    ++loops_;
    TRY_ASSIGN(out->body, block(std::array<std::string_view, 2>{"else", "endfor"}));
    --loops_;
    if (tokens_.take_name("else")) {
      TRY(tokens_.expect_block_end());
      TRY_ASSIGN(out->otherwise, block(std::array<std::string_view, 1>{"endfor"}));
    }
    TRY(tokens_.expect_name("endfor"));
    TRY(tokens_.expect_block_end());
    return out;
  }

  Result<StmtPtr> set(u32 line) {
    StmtPtr out = make(StmtKind::set, line);
    TRY_ASSIGN(out->names, targets());
    if (out->names.empty()) return tokens_.unexpected("a name");
    if (out->names.size() == 1 && tokens_.take_symbol(".")) {
      out->kind = StmtKind::set_field;
      TRY_ASSIGN(out->text, tokens_.expect_any_name("the name of a field"));
    }
    if (tokens_.take_symbol("=")) {
      TRY_ASSIGN(out->value, expressions_.tuple());
      TRY(tokens_.expect_block_end());
      return out;
    }
    if (out->names.size() != 1) return tokens_.unexpected("'='");
    out->kind = StmtKind::set_block;
    if (tokens_.take_symbol("|")) {
      TRY_ASSIGN(out->value, expressions_.filters_of(block_output));
    }
    TRY(tokens_.expect_block_end());
    TRY_ASSIGN(out->body, captured(std::array<std::string_view, 1>{"endset"}));
    TRY(tokens_.expect_name("endset"));
    TRY(tokens_.expect_block_end());
    return out;
  }

  // Parses a block whose output becomes a value. `break` and `continue` in it cannot leave a loop around it.
  Result<Block> captured(Names ends) {
    const u32 loops = std::exchange(loops_, 0);
    ++captures_;
    TRY_ASSIGN(Block out, block(ends));
    --captures_;
    loops_ = loops;
    return out;
  }

  // Parses the names and defaults of a macro or of a call's body, from behind the opening bracket on.
  Result<void> parameters(Stmt& out) {
    while (!tokens_.is_symbol(")")) {
      TRY_ASSIGN(std::string name, expressions_name());
      ExprPtr preset;
      if (tokens_.take_symbol("=")) {
        TRY_ASSIGN(preset, expressions_.expression());
      } else if (!out.defaults.empty() && out.defaults.back()) {
        return tokens_.fault("an argument without a default follows an argument with a default");
      }
      out.names.push_back(std::move(name));
      out.defaults.push_back(std::move(preset));
      if (!tokens_.take_symbol(",")) break;
    }
    return tokens_.expect_symbol(")");
  }

  // Parses the body of a macro or call, and notes which names of a macro's own it uses.
  Result<void> macro_body(Stmt& out, std::string_view end) {
    const ExpressionParser::Used outside = std::exchange(expressions_.used(), {});
    TRY_ASSIGN(out.body, captured(std::array<std::string_view, 1>{end}));
    ExpressionParser::Used& used = expressions_.used();
    out.takes_caller = used.caller;
    out.takes_more = used.places;
    out.takes_more_names = used.names;
    used = {used.caller || outside.caller, used.places || outside.places, used.names || outside.names};
    return block_end(end);
  }

  Result<void> block_end(std::string_view name) {
    TRY(tokens_.expect_name(name));
    return tokens_.expect_block_end();
  }

  Result<StmtPtr> macro(u32 line) {
    StmtPtr out = make(StmtKind::macro, line);
    TRY_ASSIGN(out->text, expressions_name());
    TRY(tokens_.expect_symbol("("));
    TRY(parameters(*out));
    TRY(tokens_.expect_block_end());
    TRY(macro_body(*out, "endmacro"));
    return out;
  }

  Result<StmtPtr> call(u32 line) {
    StmtPtr out = make(StmtKind::call, line);
    out->text = "caller";
    if (tokens_.take_symbol("(")) TRY(parameters(*out));
    TRY_ASSIGN(out->value, expressions_.call_expression());
    TRY(tokens_.expect_block_end());
    TRY(macro_body(*out, "endcall"));
    return out;
  }

  Result<StmtPtr> with(u32 line) {
    StmtPtr out = make(StmtKind::with, line);
    while (!tokens_.is(TokenKind::block_end)) {
      TRY_ASSIGN(std::string name, expressions_name());
      TRY(tokens_.expect_symbol("="));
      TRY_ASSIGN(ExprPtr value, expressions_.expression());
      out->names.push_back(std::move(name));
      out->defaults.push_back(std::move(value));
      if (!tokens_.take_symbol(",")) break;
    }
    TRY(tokens_.expect_block_end());
    TRY_ASSIGN(out->body, block(std::array<std::string_view, 1>{"endwith"}));
    TRY(block_end("endwith"));
    return out;
  }

  Result<StmtPtr> filtered(u32 line) {
    StmtPtr out = make(StmtKind::filtered, line);
    TRY_ASSIGN(out->value, expressions_.filters_of(block_output));
    TRY(tokens_.expect_block_end());
    TRY_ASSIGN(out->body, captured(std::array<std::string_view, 1>{"endfilter"}));
    TRY(block_end("endfilter"));
    return out;
  }

  Result<StmtPtr> generation(u32 line) {
    if (captures_ > 0)
      return TokenReader::fault_in(
          line, "{% generation %} in a macro, call, filter or set block has no place in the result");
    if (in_generation_) return TokenReader::fault_in(line, "{% generation %} inside {% generation %}");
    StmtPtr out = make(StmtKind::generation, line);
    has_generation_ = in_generation_ = true;
    TRY(tokens_.expect_block_end());
    const u32 loops = std::exchange(loops_, 0);
    TRY_ASSIGN(out->body, block(std::array<std::string_view, 1>{"endgeneration"}));
    loops_ = loops;
    in_generation_ = false;
    TRY(tokens_.expect_name("endgeneration"));
    TRY(tokens_.expect_block_end());
    return out;
  }

  Result<StmtPtr> leave(u32 line, const std::string& name) {
    if (loops_ == 0) return TokenReader::fault_in(line, fmt::format("'{}' is outside of a loop", name));
    TRY(tokens_.expect_block_end());
    return make(name == "break" ? StmtKind::leave : StmtKind::again, line);
  }

  TokenReader& tokens_;
  ExpressionParser expressions_;
  std::set<std::string, std::less<>> bound_ = {"caller"};  // names of variables, macros and parameters
  u32 depth_ = 0, loops_ = 0, captures_ = 0;
  bool has_generation_ = false, in_generation_ = false;
};

}  // namespace

Result<Program> parse_template(std::string_view source) {
  if (source.size() > source_bytes_max)
    return TokenReader::fault_in(1, fmt::format("the template has {} bytes; at most {} are supported",
                                                source.size(), source_bytes_max));
  TRY_ASSIGN(std::vector<Token> tokens, tokenize_template(source));
  TokenReader reader(std::move(tokens));
  return StatementParser(reader).run();
}

}  // namespace tidepool::jinja
