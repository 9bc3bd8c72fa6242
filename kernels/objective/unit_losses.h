// The parts of unit_losses(), on the CPU and on a device: sums of each sequence; numbers of the whole
// micro-batch; then the loss of each unit with the factors of its rows.
#pragma once

#include "kernels/objective/objective.h"
#include "kernels/objective/pair_losses.h"

namespace tidepool {

// Numbers that the losses of units need of the whole micro-batch.
struct UnitTotals {
  u32 units, chosen_targets;
};

constexpr bool begins_sequence(const UnitLosses& u, u32 place) { return u.sequences[place] != 0; }
constexpr bool begins_unit(const UnitLosses& u, u32 place) { return u.sequences[place] > 0; }
// RETURNS: places at the beginning of a sequence whose targets are a prompt's.
constexpr u32 prompt_places(const UnitLosses& u, u32 place) {
  return u.rule.prompt_nll && begins_unit(u, place) ? static_cast<u32>(u.values[place]) : 0;
}

constexpr SequenceSums sums_of_sequence(const UnitLosses& u, u32 place) {
  const i32 length = u.sequences[place];
  SequenceSums out{.places = static_cast<u32>(length < 0 ? -length : length)};
  const u32 completion = place + prompt_places(u, place);
  for (u32 row = place; row < place + out.places; ++row) {
    if (!has_loss(u.targets[row])) continue;
    const RowLoss& loss = u.losses[row];
    const double logp = u.rule.scores() ? double{loss.target} : double{loss.target} - double{loss.lse};
    if (row < completion) {
      out.prompt_logps += logp, ++out.prompt_targets;
      continue;
    }
    out.logps += logp, ++out.targets;
    if (u.references != nullptr) out.references += double{u.references[row]};
  }
  return out;
}

// Derivatives of a unit's loss by the log-probabilities, or logits, of the targets of one of its sequences.
struct SequenceDerivatives {
  double prompt = 0, completion = 0;
};
constexpr void set_factors(const UnitLosses& u, u32 place, u32 places, const SequenceDerivatives& d) {
  const u32 completion = place + prompt_places(u, place);
  for (u32 row = place; row < place + places; ++row) {
    if (!has_loss(u.targets[row])) continue;
    const auto factor = static_cast<float>(-(row < completion ? d.prompt : d.completion) * u.weight);
    u.factors[row] = {u.rule.scores() ? 0 : factor, factor};
  }
}

// RETURNS: the sums of the unit that begins at `place`.
constexpr Sums loss_of_unit(const UnitLosses& u, u32 place, const UnitTotals& totals) {
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
      static_cast<double>(totals.units) / (totals.chosen_targets > 0 ? totals.chosen_targets : 1);
  const double nll = -(chosen.logps + chosen.prompt_logps) * share, by_nll = -rule.chosen_nll * share;
  if (u.factors != nullptr) {
    set_factors(u, place, chosen.places, {by_nll, loss.by_chosen + by_nll});
    set_factors(u, place + chosen.places, rejected.places, {0, loss.by_rejected});
  }
  Sums out;
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
