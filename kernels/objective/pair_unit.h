// The loss of a pair: the chosen sequence, and behind it the rejected one.
#pragma once

#include "kernels/objective/pair_losses.h"
#include "kernels/objective/unit_parts.h"

namespace tidepool {

constexpr Sums loss_of_pair(const UnitLosses& u, u32 place, const UnitTotals& totals) {
  const ObjectiveRule& rule = u.rule;
  const SequenceSums chosen = u.of_sequences[place], rejected = u.of_sequences[place + chosen.places];
  const double nc = chosen.targets > 0 ? chosen.targets : 1, nr = rejected.targets > 0 ? rejected.targets : 1;
  const PairScores scores = {.chosen = {chosen.logps - chosen.references, 1, 0},
                             .rejected = {rejected.logps - rejected.references, 0, 1},
                             .chosen_tokens = nc,
                             .rejected_tokens = nr,
                             .margin = u.values != nullptr ? double{u.values[place]} : 0};
  Dual loss;
  for (u32 i = 0; i < rule.loss_count; ++i)
    loss = loss + rule.losses[i].weight * pair_loss(rule.losses[i].loss, rule, scores);
  const double share =
      static_cast<double>(totals.units) / (totals.first_targets > 0 ? totals.first_targets : 1);
  const double nll = -(chosen.logps + chosen.prompt_logps) * share, by_nll = -rule.chosen_nll * share;
  if (u.factors != nullptr) {
    set_factors(u, place, chosen.places, {by_nll, loss.by_chosen + by_nll});
    set_factors(u, place + chosen.places, rejected.places, {0, loss.by_rejected});
  }
  Sums out;
  out[Sum::units] = 1;
  out[Sum::loss] = loss.value + rule.chosen_nll * nll;
  const double c = rule.mean ? scores.mean_chosen().value : scores.chosen.value,
               r = rule.mean ? scores.mean_rejected().value : scores.rejected.value;
  const double beta = rule.scores() ? 1 : rule.beta;
  out[Sum::correct] = c > r ? 1 : 0;
  out[Sum::chosen_rewards] = beta * c, out[Sum::rejected_rewards] = beta * r;
  out[Sum::chosen_logps] = rule.mean ? chosen.logps / nc : chosen.logps;
  out[Sum::rejected_logps] = rule.mean ? rejected.logps / nr : rejected.logps;
  out[Sum::chosen_nll] = nll;
  if (rule.loss_count > 0 && rule.losses[0].loss == PairLoss::odds_ratio) {
    const Dual odds = log_odds(scores);
    out[Sum::log_odds] = odds.value, out[Sum::log_odds_ratio] = log_sigmoid(odds).value;
  }
  return out;
}

}  // namespace tidepool
