// UpdateRule says how a step changes the parameters of a group of tensors.
#pragma once

#include "tidepool/optim.h"

namespace tidepool {

struct Tensor;

enum class UnitKind : u8 {
  cut,     // the rule is elementwise: it may update any range of elements alone
  tensor,  // it updates whole tensors
};

struct UpdateRule {
  Optim optim = Optim::adamw_torch;
  UnitKind unit = UnitKind::cut;
  // True if the rule is for this tensor; null: for every tensor. A tensor takes the first rule that is for
  // it.
  bool (*takes)(const Tensor&) = nullptr;

  bool operator==(const UpdateRule&) const = default;
};

// Most rules of one model.
inline constexpr u32 update_rules_max = 4;

}  // namespace tidepool
