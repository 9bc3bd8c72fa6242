// The loss of a pair: the chosen sequence, and behind it the rejected one.
#pragma once

#include "kernels/objective/pair_losses.h"
#include "kernels/objective/unit_parts.h"

namespace tidepool {

// RETURNS: the sums, if tokens behind the first `count` weigh less (LD-DPO, arXiv:2409.06411).
constexpr SequenceSums with_light_tail(const UnitLosses& u, u32 place, u32 count, SequenceSums sums) {
  if (u.rule.ld_alpha == 1) return sums;
  const double off = 1 - u.rule.ld_alpha;
  u32 before = 0;
  for (u32 row = place; row < place + sums.places; ++row) {
    if (!has_loss(u.targets[row]) || before++ < count) continue;
    sums.logps -= off * logp_of(u, row);
    if (u.references != nullptr) sums.references -= off * double{u.references[row]};
  }
  return sums;
}

// RETURNS: what the pair counts, by how probable its completions are (WPO, arXiv:2406.11827).
constexpr double weight_of_pair(const ObjectiveRule& rule, const PairScores& s, const SequenceSums& chosen,
                                const SequenceSums& rejected) {
  if (!rule.weighted) return 1;
  return exp(chosen.aligned / s.chosen_tokens) * exp(rejected.aligned / s.rejected_tokens);
}

constexpr void add_pair_metrics(const ObjectiveRule& rule, const PairScores& s, const SequenceSums& chosen,
                                const SequenceSums& rejected, Sums& out) {
  Dual of_chosen = rule.mean ? s.mean_chosen() : s.chosen,
       of_rejected = rule.mean ? s.mean_rejected() : s.rejected;
  if (!rule.reference) of_chosen = curved(rule, of_chosen), of_rejected = curved(rule, of_rejected);
  const double beta = rule.scores() ? 1 : rule.beta;
  out[Sum::units] = 1;
  out[Sum::correct] = of_chosen.value > of_rejected.value ? 1 : 0;
  out[Sum::chosen_rewards] = beta * of_chosen.value, out[Sum::rejected_rewards] = beta * of_rejected.value;
  out[Sum::chosen_logps] = rule.mean ? chosen.logps / s.chosen_tokens : chosen.logps;
  out[Sum::rejected_logps] = rule.mean ? rejected.logps / s.rejected_tokens : rejected.logps;
  if (rule.loss_count == 0 || rule.losses[0].loss != PairLoss::odds_ratio) return;
  const Dual odds = log_odds(s);
  out[Sum::log_odds] = odds.value, out[Sum::log_odds_ratio] = log_sigmoid(odds).value;
}

constexpr Sums loss_of_pair(const UnitLosses& u, u32 place, const UnitTotals& totals) {
  const ObjectiveRule& rule = u.rule;
  const SequenceSums whole_chosen = u.of_sequences[place];
  const u32 second = place + whole_chosen.places;
  const SequenceSums whole_rejected = u.of_sequences[second];
  const u32 shared =
      whole_chosen.targets < whole_rejected.targets ? whole_chosen.targets : whole_rejected.targets;
  const SequenceSums chosen = with_light_tail(u, place, shared, whole_chosen),
                     rejected = with_light_tail(u, second, shared, whole_rejected);
  PairScores scores(rule, {chosen.logps - chosen.references, 1, 0}, chosen.targets > 0 ? chosen.targets : 1,
                    {rejected.logps - rejected.references, 0, 1},
                    rejected.targets > 0 ? rejected.targets : 1);
  if (u.values != nullptr) scores.margin = double{u.values[place]};
  Dual loss;
  for (u32 i = 0; i < rule.loss_count; ++i)
    loss = loss + rule.losses[i].weight * pair_loss(rule.losses[i].loss, rule, scores);
  loss = weight_of_pair(rule, scores, chosen, rejected) * loss;
  const double share =
      static_cast<double>(totals.units) / (totals.first_targets > 0 ? totals.first_targets : 1);
  const double nll = -(whole_chosen.logps + whole_chosen.prompt_logps) * share,
               by_nll = -rule.chosen_nll * share;
  if (u.factors != nullptr) {
    set_factors(u, place, chosen.places, {by_nll, loss.by_chosen, by_nll, shared});
    set_factors(u, second, rejected.places, {0, loss.by_rejected, 0, shared});
  }
  Sums out;
  add_pair_metrics(rule, scores, chosen, rejected, out);
  add_token_metrics(u, chosen, true, out);
  add_token_metrics(u, rejected, false, out);
  out[Sum::loss] = loss.value + rule.chosen_nll * nll;
  out[Sum::chosen_nll] = nll;
  return out;
}

}  // namespace tidepool
