#include "planner/advice.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/text/budget_text.h"
#include "base/text/change_text.h"

namespace tidepool {
namespace {

constexpr Bytes unlimited{u64{1} << 60};

// Counted in ops, not timed: the same job gets the same advice on any machine. It takes some 5 s.
constexpr u64 advice_ops_max = 800'000;

// Says which tiers are short, and advises the budgets of `larger` that exceed the old ones.
Error shortage(const PlanOptions& options, const Budgets& larger) {
  const Budgets& had = options.budgets;
  Error error{ErrorKind::does_not_fit, "the job does not fit:"};
  Change advice;
  for (const Tier tier : all_tiers) {
    const Bytes budget = had.of(tier), need = larger.of(tier);
    if (need <= budget) continue;
    advice.settings.push_back(budget_setting(tier, need));
    error.message += fmt::format("{} {} {}{}: set {}", error.message.back() == ':' ? "" : ";", name(tier),
                                 shortage_text(need, budget),
                                 reserved_text(tier == Tier::device ? options.device_reserved : Bytes{0}),
                                 setting_text(advice.settings.back()));
  }
  error.changes = {std::move(advice)};
  return error;
}

}  // namespace

Error does_not_fit(Fit& fit, const PlanOptions& options) {
  SearchWork work{.ops_max = advice_ops_max};
  const std::optional<Budgets> larger =
      fit.nearest(options.budgets, {unlimited, unlimited, unlimited}, &work);
  if (!larger) return {ErrorKind::does_not_fit, "the job does not fit"};
  return shortage(options, *larger);
}

}  // namespace tidepool
