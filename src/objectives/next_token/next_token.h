// Each token predicts the token behind it.
#pragma once

#include <cmath>

#include "base/text/units.h"
#include "objectives/objective.h"

namespace tidepool {

inline constexpr Objective next_token = {
    .targets = "tokens",
    .figure = {.metric = "perplexity",
               .word = "perplexity",
               .of = [](const Sums& sums, double targets) { return std::exp(sums[Sum::loss] / targets); },
               .text = perplexity_text,
               .of_loss = true}};

}  // namespace tidepool
