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
    if (u.old_logps != nullptr) out.old_logps += double{u.old_logps[row]};
  }
  return out;
}

// Derivatives of a unit's loss by the log-probabilities, or logits, of the targets of one of its sequences.
struct SequenceDerivatives {
  double prompt = 0, completion = 0;
};
constexpr void set_factor(const UnitLosses& u, u32 row, double derivative) {
  const auto factor = static_cast<float>(-derivative * u.weight);
  u.factors[row] = {u.rule.scores() ? 0 : factor, factor};
}
constexpr void set_factors(const UnitLosses& u, u32 place, u32 places, const SequenceDerivatives& d) {
  const u32 completion = place + prompt_places(u, place);
  for (u32 row = place; row < place + places; ++row)
    if (has_loss(u.targets[row])) set_factor(u, row, row < completion ? d.prompt : d.completion);
}

}  // namespace tidepool
