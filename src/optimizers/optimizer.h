// Optimizer is an update rule: the state that it keeps, its arithmetic, and what that costs. Each has a
// folder here and a row in optimizers.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/update/update.h"
#include "tidepool/state_slot.h"
#include "tidepool/update_rule.h"

namespace tidepool {

struct ModelGraph;
struct Window;

// The settings of a config. A rule reads those that it has a use for.
struct OptimizerSettings {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double sgd_momentum = 0.9;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
};

struct Optimizer {
  std::string_view title;  // for people
  std::span<const StateSlot> slots;
  std::span<const std::string_view>
      keys;  // settings of section train that only some rules read, and this does
  // Scalars of update `t`, which counts from 1.
  UpdateStep (*step)(const OptimizerSettings&, u64 t);
  UpdateTileFn tile;                 // of the whole update; of the step, if it is streamed
  UpdateTileFn direction = nullptr;  // streamed
  // The whole update of a chunk with its tensors; null: it is done tile by tile.
  void (*of_tensors)(const UpdateChunk&, const StateSlots&, const UpdateScalars&, CorePool&) = nullptr;
  u64 (*scratch)(std::span<const UpdateTensor>) = nullptr;  // bytes that of_tensors needs
  u32 gradient_reads = 1;                                   // passes over the gradient, from memory
  UnitKind unit = UnitKind::cut;
  UpdatePlace place = UpdatePlace::home;
  // True if the rule is for this tensor; null: it is for all. Tensors that it is not for take the rule
  // `others`.
  bool (*takes)(const Tensor&) = nullptr;
  Optim others = Optim::adamw_torch;
  Optim base = Optim::adamw_torch;  // the same list of operations with fp32 state; maybe itself
};

const Optimizer& optimizer(Optim);

// ---- slots below 32 bits

constexpr StateSlot bf16_slot(StateSlot slot) {
  slot.format = SlotFormat::bf16, slot.block_bytes = 2;
  return slot;
}
constexpr StateSlot coded_slot(StateSlot slot, SlotFormat format) {
  slot.format = format, slot.block_elements = slot_block_elements, slot.block_bytes = slot_block_bytes;
  return slot;
}
// A rule with state of 8 bits is for matrices of at least this many elements, as in bitsandbytes; vectors and
// small matrices take its base.
inline constexpr u64 coded_elements_min = 4096;
bool takes_codes(const Tensor&);

inline StateSlots state_slots(Precision precision, Optim optim) {
  return {precision, optimizer(optim).slots};
}
// REQUIRES: at most update_rules_max rules.
StateSlots state_slots(Precision, std::span<const UpdateRule>);

// RETURNS: the rules of a model that trains with `optim`, and with other rules for tensors that it is not
// for. `like`: settings of all of them.
std::vector<UpdateRule> update_rules(Optim, const UpdateRule& like = {});

// Scalars of update `t` by the rule, before the norm is known.
UpdateStep update_step(const UpdateRule&, const OptimizerSettings&, u64 t, double max_grad_norm);
inline UpdateStep update_step(Optim optim, const OptimizerSettings& settings, u64 t, double max_grad_norm) {
  return update_step({.optim = optim}, settings, t, max_grad_norm);
}

// Does a part of a chunk set's update.
inline void update(const UpdateChunk& chunk, const StateSlots& slots, UpdatePart part, Optim optim,
                   const UpdateScalars& scalars, CorePool& pool) {
  const Optimizer& row = optimizer(optim);
  if (row.of_tensors != nullptr) return row.of_tensors(chunk, slots, scalars, pool);
  update(chunk, slots, part, part == UpdatePart::direction ? row.direction : row.tile, scalars, pool);
}
// RETURNS: the tensors that lie in [begin, end) of the window, as an update of that range takes them.
std::vector<UpdateTensor> update_tensors(const Window&, u64 begin, u64 end);
// RETURNS: the most scratch that an update of the model takes.
Bytes update_scratch(const ModelGraph&);

// RETURNS: the parts of a rule's updates that run where its state rests.
std::span<const UpdatePart> parts_of(Optim);
// RETURNS: the arrays that a part changes, of a chunk set with all of them.
UpdateChunk part_of(const UpdateChunk& whole, const StateSlots& slots, UpdatePart);
// Does all parts, one after the other. The direction of a streamed rule stays as it is, and takes the
// gradient's place.
void update(const UpdateChunk&, const StateSlots& slots, Optim, const UpdateScalars&, CorePool&);

}  // namespace tidepool
