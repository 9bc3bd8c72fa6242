// Syntax tree of a template. Every node can be evaluated: the parser has refused everything outside of the
// supported subset, by name and line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

enum class ExprKind : u8 {
  constant,
  name,        // text
  list,        // parts
  tuple,       // parts
  dict,        // parts: key, value, key, value ...
  attribute,   // parts[0] . text
  item,        // parts[0] [ parts[1] ]
  slice,       // parts[0] [ parts[1] : parts[2] : parts[3] ], null where left out
  call,        // text ( parts ...; keywords ), of a function or a macro
  method,      // parts[0] . text ( parts[1] ...; keywords )
  filter,      // parts[0] | text ( parts[1] ...; keywords )
  test,        // parts[0] is text ( parts[1] ... )
  unary,       // text: not - +
  binary,      // text: + - * / // % ** ~
  comparison,  // parts[0] texts[0] parts[1] texts[1] parts[2] ...: true if all hold
  both,        // parts[0] and parts[1]
  either,      // parts[0] or parts[1]
  choice,      // parts[0] if parts[1] else parts[2], which may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind{};
  u32 line = 0;
  u32 height = 1;  // of the tree below this node
  std::string text;
  Value constant;
  std::vector<ExprPtr> parts;
  std::vector<std::string> texts;
  std::vector<Keyword> keywords;
  ExprPtr spread, spread_names;  // arguments *spread and **spread_names; may be null
};

enum class StmtKind : u8 {
  text,       // text
  print,      // value
  condition,  // value, body, otherwise
  loop,  // for names in value if filter: body; else: otherwise, run if there was no iteration; recursive: the
         // body may call loop(...)
  set,   // names = value
  set_field,   // names[0] . text = value
  set_block,   // names[0], or names[0] . text, = output of body, through the filters of value, if there are
               // any
  with,        // names = defaults: body
  call,        // value, the call of a macro, whose caller( names = defaults ... ) is body
  filtered,    // output of body, through the filters of value
  macro,       // text ( names = defaults ... ): body
  generation,  // body: text of the assistant, which the model learns to write
  leave,       // break
  again,       // continue
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  StmtKind kind{};
  u32 line = 0;
  std::string text;
  std::vector<std::string> names;
  ExprPtr value, filter;
  std::vector<ExprPtr> defaults;  // one per name; null: no default
  Block body, otherwise;
  bool recursive = false;
  bool takes_caller = false, takes_more = false,
       takes_more_names = false;  // a macro: caller, *varargs, **kwargs
};

// Name under which the filters of a block find its output: no template can write it.
inline constexpr std::string_view block_output = "(output)";

}  // namespace tidepool::jinja
