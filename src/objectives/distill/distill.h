// Distillation: each token predicts the token behind it as a teacher does. What the teacher says comes from a
// pass before training, or with the documents.
#pragma once

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline ObjectiveRule distill_rule(const ObjectiveConfig& c) {
  return {.divergence = {.top_k = c.top_k,
                         .beta = c.beta,
                         .temperature = c.temperature,
                         .remainder = c.remainder,
                         .columns = c.teacher_columns}};
}

inline constexpr auto distill_keys =
    std::to_array<std::string_view>({"beta", "teacher", "top_k", "temperature", "remainder"});

inline constexpr Objective distill = {.targets = "tokens",
                                      .figure = {.metric = "eval_accuracy",
                                                 .word = "accuracy",
                                                 .of = mean_of<Sum::correct>,
                                                 .text = significant_text},
                                      .keys = distill_keys,
                                      .beta = 0,
                                      .beta_may_be_zero = true,
                                      .rule = distill_rule};

}  // namespace tidepool
