// A step's line with the numbers that most runs have.
#pragma once

#include "report/terminal.h"

namespace tidepool::test {

struct StepNumbersShown {
  double epoch = 0, loss = 0, learning_rate = 0, grad_norm = 0, tokens_per_second = 0;
};
inline StepLine step_line(u64 step, const StepNumbersShown& shown) {
  StepLine line{.step = step};
  line.metrics.set(Metric::epoch, shown.epoch)
      .set(Metric::loss, shown.loss)
      .set(Metric::learning_rate, shown.learning_rate)
      .set(Metric::grad_norm, shown.grad_norm)
      .set(Metric::train_tokens_per_second, shown.tokens_per_second);
  return line;
}

}  // namespace tidepool::test
