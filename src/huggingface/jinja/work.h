// Work counts what a rendering does, and ends a rendering that does too much. It counts operations and the
// bytes and elements that they read and write, not time: the same template with the same chat is refused on
// every machine or on none.
#pragma once

#include "base/result.h"
#include "base/types.h"

namespace tidepool::jinja {

class Work {
 public:
  explicit Work(u64 steps_allowed) : allowed_(steps_allowed) {}

  u64 steps() const { return steps_; }
  // Error: without line, if the rendering has taken more steps than it may.
  Result<void> spend(u64 steps) {
    steps_ = steps > ~u64{0} - steps_ ? ~u64{0} : steps_ + steps;
    if (steps_ <= allowed_) return {};
    return Error{ErrorKind::bad_input, "the template takes too many steps; check its nested loops"};
  }
  Result<void> spend_bytes(u64 bytes) { return spend(bytes / bytes_per_step); }
  Result<void> spend_elements(u64 elements) { return spend(elements / elements_per_step); }

 private:
  // A step is about 100 ns: an expression, or this much of a value. Slower operations pay more.
  static constexpr u64 bytes_per_step = 32, elements_per_step = 2;

  const u64 allowed_;
  u64 steps_ = 0;
};

}  // namespace tidepool::jinja
