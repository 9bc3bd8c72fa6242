// The parts that losses of all units have in common, on the CPU and on a device: sums of each sequence, and
// factors of its rows.
#pragma once

#include "kernels/objective/objective.h"

namespace tidepool {

// Numbers that the losses of units need of the whole micro-batch.
struct UnitTotals {
  u32 units;
  u32 first_targets;  // of units' first sequences
  double mismatched;  // judged answers: sum of the log-ratios of answers to other prompts
};

constexpr bool begins_sequence(const UnitLosses& u, u32 place) { return u.sequences[place] != 0; }
constexpr bool begins_unit(const UnitLosses& u, u32 place) { return u.sequences[place] > 0; }
// RETURNS: places at the beginning of a sequence whose targets are a prompt's.
constexpr u32 prompt_places(const UnitLosses& u, u32 place) {
  return u.rule.prompt_nll && begins_unit(u, place) ? static_cast<u32>(u.values[place]) : 0;
}

// RETURNS: log-probability of a row's target; of a reward model, its logit.
constexpr double logp_of(const UnitLosses& u, u32 row) {
  const RowLoss& loss = u.losses[row];
  return u.rule.scores() ? double{loss.target} : double{loss.target} - double{loss.lse};
}
constexpr void add_logit_sums(const UnitLosses& u, u32 row, double logp, SequenceSums& out) {
  const LogitSums& sums = u.logit_sums[row];
  out.entropy += entropy_of(u.losses[row], sums);
  out.logits += double{sums.logits} / u.columns;
  out.aligned += logp - log_squares_of(u.losses[row], sums);
}
constexpr SequenceSums sums_of_sequence(const UnitLosses& u, u32 place) {
  const i32 length = u.sequences[place];
  SequenceSums out{.places = static_cast<u32>(length < 0 ? -length : length)};
  const u32 completion = place + prompt_places(u, place);
  for (u32 row = place; row < place + out.places; ++row) {
    if (!has_loss(u.targets[row])) continue;
    const double logp = logp_of(u, row);
    if (row < completion) {
      out.prompt_logps += logp, ++out.prompt_targets;
      continue;
    }
    out.logps += logp, ++out.targets;
    out.correct += u.losses[row].target == u.losses[row].maximum;
    if (u.logit_sums != nullptr) add_logit_sums(u, row, logp, out);
    if (u.references != nullptr) out.references += double{u.references[row]};
    if (u.old_logps != nullptr) out.old_logps += double{u.old_logps[row]};
  }
  return out;
}

// The sums that tell of the logits of a unit's answer. `chosen`: it is one that is to be more probable.
constexpr void add_token_metrics(const UnitLosses& u, const SequenceSums& answer, bool chosen, Sums& out) {
  out[Sum::tokens] += answer.targets;
  if (chosen) out[Sum::chosen_tokens] += answer.targets, out[Sum::chosen_correct] += answer.correct;
  if (!u.rule.logit_metrics) return;
  out[Sum::entropies] += answer.targets;
  out[Sum::entropy] += answer.entropy;
  out[chosen ? Sum::chosen_logits : Sum::rejected_logits] += answer.logits;
}

// Derivatives of a unit's loss by the log-probabilities, or logits, of the targets of one of its sequences.
struct SequenceDerivatives {
  double prompt = 0, completion = 0;
  double each = 0;  // of the completion's targets, whatever they weigh
  u32 whole = ~0u;  // targets that weigh 1; those behind them ObjectiveRule::ld_alpha
};
constexpr void set_factor(const UnitLosses& u, u32 row, double derivative) {
  const auto factor = static_cast<float>(-derivative * u.weight);
  u.factors[row] = {u.rule.scores() ? 0 : factor, factor};
}
constexpr void set_factors(const UnitLosses& u, u32 place, u32 places, const SequenceDerivatives& d) {
  const u32 completion = place + prompt_places(u, place);
  u32 before = 0;
  for (u32 row = place; row < place + places; ++row) {
    if (!has_loss(u.targets[row])) continue;
    if (row < completion) {
      set_factor(u, row, d.prompt);
      continue;
    }
    const double weight = before++ < d.whole ? 1 : u.rule.ld_alpha;
    set_factor(u, row, weight * d.completion + d.each);
  }
}

}  // namespace tidepool
