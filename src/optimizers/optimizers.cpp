#include <array>

#include "base/check.h"
#include "optimizers/adamw/adamw.h"
#include "optimizers/lion/lion.h"
#include "optimizers/sgd/sgd.h"

namespace tidepool {

const Optimizer& optimizer(Optim optim) {
  static constexpr std::array<Optimizer, optim_count> rows = {adamw, lion, sgd};
  return rows[static_cast<u32>(optim)];
}

StateSlots state_slots(Precision precision, std::span<const UpdateRule> rules) {
  CHECK(rules.size() <= update_rules_max, rules.size());
  std::array<std::span<const StateSlot>, update_rules_max> slots;
  for (u64 rule = 0; rule < rules.size(); ++rule) slots[rule] = optimizer(rules[rule].optim).slots;
  return {precision, std::span<const std::span<const StateSlot>>(slots).first(rules.size())};
}

std::vector<UpdateRule> update_rules(Optim optim) {
  const Optimizer& row = optimizer(optim);
  std::vector<UpdateRule> rules = {{.optim = optim, .unit = row.unit, .takes = row.takes}};
  if (row.takes != nullptr) rules.push_back({.optim = row.others, .unit = optimizer(row.others).unit});
  return rules;
}

}  // namespace tidepool
