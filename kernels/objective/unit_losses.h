// unit_losses() on the CPU and on a device: sums of each sequence; numbers of the whole micro-batch; then the
// loss of each unit with the factors of its rows.
#pragma once

#include "kernels/objective/judged_unit.h"
#include "kernels/objective/pair_unit.h"
#include "kernels/objective/rollout_unit.h"

namespace tidepool {

// RETURNS: the sums of the unit that begins at `place`.
constexpr Sums loss_of_unit(const UnitLosses& u, u32 place, const UnitTotals& totals) {
  switch (u.rule.unit) {
    case LossUnit::target:
      break;
    case LossUnit::pair:
      return loss_of_pair(u, place, totals);
    case LossUnit::judged:
      return loss_of_judged(u, place, totals);
    case LossUnit::rollout:
      return Rollout(u, place).loss(totals);
  }
  return {};
}

}  // namespace tidepool
