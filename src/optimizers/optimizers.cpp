#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "optimizers/adafactor/adafactor.h"
#include "optimizers/adamw/adamw.h"
#include "optimizers/lion/lion.h"
#include "optimizers/muon/muon.h"
#include "optimizers/sgd/sgd.h"
#include "tidepool/model_graph.h"
#include "tidepool/slot_range.h"
#include "tidepool/update_units.h"

namespace tidepool {

const Optimizer& optimizer(Optim optim) {
  static constexpr std::array<Optimizer, optim_count> rows = {adamw,      lion,      sgd,       adamw_bf16,
                                                              adamw_8bit, lion_bf16, lion_8bit, sgd_bf16,
                                                              sgd_8bit,   muon,      muon_bf16, adafactor};
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

std::vector<UpdateRule> update_rules(Optim optim, const UpdateRule& like) {
  std::vector<UpdateRule> rules;
  for (;;) {
    const Optimizer& row = optimizer(optim);
    UpdateRule rule = like;
    rule.optim = optim, rule.unit = row.unit, rule.place = row.place, rule.takes = row.takes;
    rule.gradient_reads = row.gradient_reads;
    rules.push_back(std::move(rule));
    if (row.takes == nullptr) return rules;
    optim = row.others;
  }
}

UpdateStep update_step(const UpdateRule& rule, const OptimizerSettings& settings, u64 t,
                       double max_grad_norm) {
  OptimizerSettings of_rule = settings;
  of_rule.learning_rate *= rule.rate;
  of_rule.weight_decay = rule.weight_decay.value_or(settings.weight_decay);
  UpdateStep step = optimizer(rule.optim).step(of_rule, t);
  step.max_grad_norm = max_grad_norm;
  step.unclipped.step = t;
  return step;
}

std::vector<UpdateTensor> update_tensors(const Window& window, u64 begin, u64 end) {
  std::vector<UpdateTensor> out;
  for (const Tensor& tensor : window.tensors) {
    if (tensor.window_offset < begin || tensor.window_offset >= end) continue;
    CHECK(slot_elements(SlotAxis::columns, tensor) <= ~u32{0}, tensor.name);
    out.push_back({.begin = tensor.window_offset - begin,
                   .rows = static_cast<u32>(slot_elements(SlotAxis::rows, tensor)),
                   .columns = static_cast<u32>(slot_elements(SlotAxis::columns, tensor))});
  }
  return out;
}

Bytes update_scratch(const ModelGraph& graph) {
  u64 most = 0;
  for (const Window& window : graph.windows)
    for (const UpdateUnit& unit : update_units(graph, window))
      if (const auto scratch = optimizer(graph.rules[unit.rule].optim).scratch; scratch && window.trainable)
        most = std::max(most, scratch(update_tensors(window, unit.begin, unit.end())));
  return Bytes{most};
}

std::span<const UpdatePart> parts_of(Optim optim) {
  static constexpr UpdatePart whole[] = {UpdatePart::whole};
  static constexpr UpdatePart streamed[] = {UpdatePart::direction, UpdatePart::step};
  if (optimizer(optim).place == UpdatePlace::streamed) return streamed;
  return whole;
}

UpdateChunk part_of(const UpdateChunk& whole, const StateSlots& slots, UpdatePart part) {
  UpdateChunk out = whole;
  out.arrays = {};
  u32 arrays = 0;
  if (part == UpdatePart::direction)
    out.arrays[arrays++].data = const_cast<std::byte*>(whole.grad);
  else
    out.arrays[arrays++] = whole.arrays[0];
  slots.each_of_part(0, part, [&](Kind slot) { out.arrays[arrays++] = whole.arrays[1 + slot_of(slot)]; });
  return out;
}

void update(const UpdateChunk& chunk, const StateSlots& slots, Optim optim, const UpdateScalars& scalars,
            CorePool& pool) {
  for (const UpdatePart part : parts_of(optim))
    update(part_of(chunk, slots, part), slots, part, optim, scalars, pool);
}

}  // namespace tidepool
