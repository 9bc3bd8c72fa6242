// LoRA in a layer's code: what is added to its linear layers, and the gradients of what is added.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "kernels/values.h"
#include "model/blocks.h"
#include "model/workspace_cutter.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// A linear layer of a layer, as transformers names it: y [R, out] of x [R, in].
struct LinearModule {
  std::string_view path;  // "self_attn.q_proj"
  u32 in = 0, out = 0;

  // "q_proj", which target_modules may name.
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

struct LinearModules {
  static constexpr u32 count_max = 8;
  std::array<LinearModule, count_max> of;
  u32 count = 0;

  void add(const LinearModule& module) { of[count++] = module; }
};

// Modules that one product makes, side by side in the columns of its y.
struct JoinedModules {
  u32 first = 0, count = 0;
};

bool is_target(const LoraConfig&, const LinearModule&);

// Share of adapters' products in a workspace, for one module at a time.
struct AdapterScratch {
  Values low;       // [R, r]: scale x A^T
  Values low_grad;  // [R, r]: scale dy B
  Values dropped;   // [R, in] of the widest: x with dropout; null without dropout
};
// Nothing without LoRA.
AdapterScratch adapter_scratch(const ModelGraph&, WorkspaceCutter&);

// A layer's accumulators.
struct AdapterGradients {
  float* window = nullptr;  // null without LoRA
  bool accumulate = true;
};
AdapterGradients adapter_gradients_of(const BlockContext&, const BlockBackward&);

// A layer's adapters in device memory. Their x is that of their module with a dropout of its own. Of modules
// that have none, and without LoRA, every call does nothing.
class Adapters {
 public:
  // `windows`: the block's.
  Adapters(const BlockContext&, const LinearModules&, std::span<const std::byte* const> windows,
           const AdapterScratch&);

  bool has(u32 module) const { return tensor(module) != none; }

  // y += scale (x A^T) B^T for each module, in its columns.
  void add_to(JoinedModules, ConstValues x, Values y) const;
  // dx += scale (dy B) A, through the dropout of x
  void add_input_gradient(JoinedModules, ConstValues dy, Values dx) const;
  // The same of one module that stands alone, but dx = it.
  void input_gradient(u32 module, ConstValues dy, Values dx) const;
  // dB = dy^T (scale x A^T), dA = (scale dy B)^T x
  void weight_gradients(JoinedModules, ConstValues x, ConstValues dy, const AdapterGradients&) const;
  // Both, where x and dx are there together: scale dy B is made once. They do not overlap.
  void gradients(JoinedModules, ConstValues x, ConstValues dy, Values dx, const AdapterGradients&) const;

  // The last product of add_to, for those who give it another end: y = low B^T [R, out], packed. What it
  // multiplies is made by this call.
  Matmul up(u32 module, ConstValues x) const;

 private:
  struct Place {
    u32 module, column;  // of y
  };
  template <class Fn>
  void for_targets(JoinedModules, Fn) const;
  u32 columns(JoinedModules) const;
  u32 tensor(u32 module) const;  // of A; B is the next
  Param param(u32 tensor) const;
  Dropout dropout_of(u32 module) const;
  ConstValues make_low(u32 module, ConstValues x) const;  // returns x as adapters see it
  void make_low_grad(u32 module, ConstValues dy, u32 dy_stride) const;
  void module_weight_gradients(Place, JoinedModules, ConstValues x, ConstValues dy,
                               const AdapterGradients&) const;
  void add_low_grad(u32 module, Values dx) const;
  Matmul product_of_low_grad(u32 module) const;

  const BlockContext& c_;
  LinearModules modules_;
  const Window* window_ = nullptr;
  const std::byte* data_ = nullptr;
  AdapterScratch scratch_;
};

}  // namespace tidepool
