#include "kernels/objective/objective.h"

#include <algorithm>

#include "kernels/objective/unit_losses.h"

namespace tidepool {

// On one thread: a micro-batch has few units, and each takes a few additions per row.
void unit_losses_cpu(const UnitLosses& u) {
  UnitTotals totals{};
  for (u32 row = 0; row < u.rows; ++row) {
    if (!begins_sequence(u, row)) continue;
    u.of_sequences[row] = sums_of_sequence(u, row);
    const SequenceSums& sums = u.of_sequences[row];
    if (!begins_unit(u, row)) {
      totals.mismatched += sums.logps - sums.references;
      continue;
    }
    ++totals.units;
    totals.first_targets += sums.targets + sums.prompt_targets;
  }
  if (u.factors != nullptr) std::fill_n(u.factors, u.rows, RowFactors{});
  for (u32 row = 0; row < u.rows; ++row)
    if (begins_unit(u, row)) u.sums->add(loss_of_unit(u, row, totals));
}

}  // namespace tidepool
