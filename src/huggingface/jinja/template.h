// Chat templates: the part of Jinja that the templates of model directories use, run as transformers runs
// them (trim_blocks, lstrip_blocks, an immutable sandbox, loop controls, {% generation %}). What is outside
// of that part is refused by name and line before anything is rendered; docs/data.md lists what there is.
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

struct Rendered {
  std::string text;
  std::vector<Span> generations;  // what stood between {% generation %} and {% endgeneration %}, in order
};

class Template {
 public:
  // `name` is what errors call it: a path. Error: ErrorKind::bad_input, "NAME:LINE: reason".
  static Result<std::unique_ptr<const Template>> parse(std::string_view source, std::string name);
  ~Template();
  Template(const Template&) = delete;

  bool has_generation() const;
  const std::string& name() const { return name_; }

  // `now` is what strftime_now prints. Any thread may call at any time. Errors as parse's: what the template
  // itself refuses (raise_exception), and what it does with values that they do not permit.
  // `steps_left`, where it is not null, is shared by several renderings: what this one takes is taken from
  // it, and 0 is left where it was not enough.
  static constexpr u64 steps_max = 5'000'000;  // of one rendering: a second or so
  Result<Rendered> render(const Dict& variables, const std::tm& now, u64* steps_left = nullptr) const;

 private:
  Template();
  std::string name_;
  std::unique_ptr<Program> program_;
};

}  // namespace tidepool::jinja
