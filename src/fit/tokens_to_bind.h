// tokens_to_bind() says from how many tokens per step on compute is the busiest resource of a machine.
#pragma once

#include <string>

#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct TokensToBind {
  double tokens = 0;  // per step; infinity: never
  std::string other;  // the resource that is as busy at this number, or that no number hides; empty: none
};

// By sums of bytes and of predicted times alone, without waits: content of parameters, gradients and
// optimizer moves once per step whatever the number of tokens, as if the plan had one sweep; computing and
// activations are in proportion to tokens.
TokensToBind tokens_to_bind(const Plan&, const ModelGraph&, const Machine&);

}  // namespace tidepool
