// Each token of a text predicts its label, as in transformers' ForTokenClassification models.
#pragma once

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline constexpr Objective token_classification = {.documents = Documents::token_labels,
                                                   .scores = true,
                                                   .targets = "labels",
                                                   .takes = "tokens and labels",
                                                   .figure = {.metric = "eval_accuracy",
                                                              .word = "accuracy",
                                                              .of = mean_of<Sum::correct>,
                                                              .text = significant_text},
                                                   .keys = smoothed_target_keys};

}  // namespace tidepool
