#include <array>

#include "base/check.h"
#include "optimizers/adamw/adamw.h"
#include "optimizers/lion/lion.h"
#include "optimizers/sgd/sgd.h"
#include "tidepool/model_graph.h"

namespace tidepool {

const Optimizer& optimizer(Optim optim) {
  static constexpr std::array<Optimizer, optim_count> rows = {
      adamw, lion, sgd, adamw_bf16, adamw_8bit, lion_bf16, lion_8bit, sgd_bf16, sgd_8bit};
  return rows[static_cast<u32>(optim)];
}

bool takes_codes(const Tensor& tensor) {
  return tensor.shape.size() > 1 && tensor.elements >= coded_elements_min;
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
