// The loss of an answer that is desirable or not (KTO, arXiv:2402.01306, as TRL 1.16 has it). Behind it
// stands the answer to another prompt, of which the micro-batch's estimate of the divergence is made; or
// none, and the estimate is 0.
#pragma once

#include "kernels/objective/dual.h"
#include "kernels/objective/unit_parts.h"

namespace tidepool {

constexpr Sums loss_of_judged(const UnitLosses& u, u32 place, const UnitTotals& totals) {
  const ObjectiveRule& rule = u.rule;
  const SequenceSums answer = u.of_sequences[place];
  const bool desirable = u.values[place] > 0;
  const double mean = totals.mismatched / totals.units, kl = mean > 0 ? mean : 0;
  const Dual ratio = {answer.logps - answer.references, 1, 0};
  const Dual gain = rule.beta * (desirable ? ratio - kl : kl - ratio);
  const Dual loss = (desirable ? rule.desirable_weight : rule.undesirable_weight) * (1 - sigmoid(gain));
  if (u.factors != nullptr) set_factors(u, place, answer.places, {0, loss.by_chosen});
  Sums out;
  out[Sum::loss] = loss.value;
  out[Sum::units] = 1, out[Sum::chosen_units] = desirable ? 1 : 0;
  out[desirable ? Sum::chosen_rewards : Sum::rejected_rewards] = rule.beta * ratio.value;
  out[desirable ? Sum::chosen_logps : Sum::rejected_logps] = answer.logps;
  out[Sum::kl] = kl;
  add_token_metrics(u, answer, desirable, out);
  return out;
}

}  // namespace tidepool
