// UpdateRule says how a step changes the parameters of a group of tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tidepool/optim.h"
#include "tidepool/tensor_kind.h"

namespace tidepool {

struct Tensor;

enum class UnitKind : u8 {
  cut,     // the rule is elementwise: it may update any range of elements alone
  tensor,  // it updates whole tensors
};

enum class UpdatePlace : u8 {
  home,  // one op, where the state rests
  // Three ops: where the state rests, the gradient becomes the direction of the step; a device orthogonalizes
  // it; where the state rests, the parameters follow it.
  streamed,
};

// Parts of an update, each an op of its own.
enum class UpdatePart : u8 {
  whole,      // all, at home
  direction,  // gradient and the rule's slots
  step,       // parameters and the precision's slots, along the direction
};

// Factor on the learning rate of a matrix, as torch.optim.Muon's adjust_lr_fn for matrices [out, in].
enum class AdjustRate : u8 {
  original,            // sqrt(max(1, outputs / inputs)): Jordan's
  match_rms_adamw,     // 0.2 sqrt(max(outputs, inputs)): Moonlight's, for learning rates of AdamW
  spectral_unclamped,  // sqrt(outputs / inputs)
};
inline constexpr std::array<std::string_view, 3> adjust_rate_names = {"original", "match_rms_adamw",
                                                                      "spectral_unclamped"};
struct Orthogonalization {
  u32 steps = 5;
  AdjustRate adjust = AdjustRate::original;

  bool operator==(const Orthogonalization&) const = default;
};
inline constexpr u32 orthogonalization_steps_max = 99;  // as in PyTorch
// RETURNS: the factor for a matrix with so many outputs and inputs.
float adjusted_rate(AdjustRate, u32 outputs, u32 inputs);

// Tensors of some kinds, or whose names match one of some patterns, in which * stands for any text. Without
// either: all.
struct TensorSelection {
  u32 kinds = 0;  // a bit for each TensorKind
  std::vector<std::string> names;

  bool has(const Tensor&) const;
  bool operator==(const TensorSelection&) const = default;
};

struct UpdateRule {
  Optim optim = Optim::adamw_torch;
  UnitKind unit = UnitKind::cut;
  UpdatePlace place = UpdatePlace::home;
  Orthogonalization orthogonalization;  // streamed
  u32 gradient_reads = 1;               // of an update, from memory
  // True if the optimizer is for this tensor; null: for every tensor. A tensor takes the first rule that is
  // for it.
  bool (*takes)(const Tensor&) = nullptr;
  TensorSelection tensors;             // the rule is for those of them that `takes` allows
  u32 group = 0;                       // number of the optimizer group that it belongs to, from 1; 0: none
  double rate = 1;                     // factor on the learning rate of the config
  std::optional<double> weight_decay;  // of all its tensors; none: as the config says

  bool is_for(const Tensor& tensor) const {
    return (takes == nullptr || takes(tensor)) && tensors.has(tensor);
  }
  bool operator==(const UpdateRule&) const = default;
};

// Most rules of one model.
inline constexpr u32 update_rules_max = 12;

}  // namespace tidepool
