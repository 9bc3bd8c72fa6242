// The last token of a text predicts its label, as in transformers' ForSequenceClassification models. Texts
// lie at the beginning of rows, or side by side; padding comes behind them, and is not pooled.
#pragma once

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline constexpr Objective sequence_classification = {
    .documents = Documents::labelled,
    .scores = true,
    .targets = "texts",
    .takes = "text and label",
    .figure = {.metric = "eval_accuracy",
               .word = "accuracy",
               .of = [](const Sums& sums, double targets) { return sums[Sum::correct] / targets; },
               .text = significant_text},
    .keys = smoothed_target_keys};

}  // namespace tidepool
