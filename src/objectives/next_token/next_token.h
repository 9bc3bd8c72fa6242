// Each token predicts the token behind it.
#pragma once

#include <array>
#include <cmath>

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline constexpr Objective next_token = {
    .targets = "tokens",
    .figure = {.metric = "perplexity",
               .word = "perplexity",
               .of = [](const Sums& sums, double targets) { return std::exp(sums[Sum::loss] / targets); },
               .text = perplexity_text,
               .of_loss = true},
    .keys = smoothed_target_keys};

}  // namespace tidepool
