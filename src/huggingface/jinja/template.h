// Template renders chat templates. It supports the part of Jinja that the templates of model directories use,
// with the settings of transformers (trim_blocks, lstrip_blocks, an immutable sandbox, loop controls, {%
// generation %}). Anything else is refused by name and line before rendering; docs/data.md lists the
// supported subset.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

struct Program;

struct Span {
  u64 begin = 0, end = 0;  // bytes of the text
  bool operator==(const Span&) const = default;
};

// Text that one turn of a loop wrote while its variable was an element of the variable `messages`.
struct Turn {
  u64 message = 0;  // index into `messages`
  Span span;        // not empty
};

struct Rendered {
  std::string text;
  std::vector<Turn> turns;        // of outermost loops, in order; not of loops in macros and set blocks
  std::vector<Span> generations;  // texts between {% generation %} and {% endgeneration %}, in order
};

class Template {
 public:
  // `name` is the template's name in errors: a path.
  // Error: bad_input, "NAME:LINE: reason".
  static Result<std::unique_ptr<const Template>> parse(std::string_view source, std::string name);
  ~Template();
  Template(const Template&) = delete;

  bool has_generation() const;
  const std::string& name() const { return name_; }

  // `now` is the time that strftime_now prints. `steps_left`, if not null, is a budget that several
  // renderings share: this rendering subtracts its steps; 0 is left if they were not enough.
  // THREADS: any, at any time.
  // Error: as parse(), for errors that the template raises (raise_exception) and for operations that values
  // do not support.
  static constexpr u64 steps_max = 5'000'000;  // per rendering: about a second
  Result<Rendered> render(const Dict& variables, const std::tm& now, u64* steps_left = nullptr) const;

 private:
  Template();
  std::string name_;
  std::unique_ptr<Program> program_;
};

}  // namespace tidepool::jinja
