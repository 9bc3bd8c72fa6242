// Adapters adds the low-rank products of LoRA to a layer's linear layers, and computes their gradients.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/check.h"
#include "kernels/values.h"
#include "model/blocks.h"
#include "model/workspace_cutter.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// A linear layer of a layer, as transformers names it: y [R, out] of x [R, in].
struct LinearModule {
  std::string_view path;  // "self_attn.q_proj"
  u32 in = 0, out = 0;
  bool router = false;  // LayerAdapters::router has its path, which depends on how it was targeted

  // "q_proj", which target_modules may name.
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

struct LinearModules {
  static constexpr u32 count_max = 12;
  std::array<LinearModule, count_max> of;
  u32 count = 0;

  void add(const LinearModule& module) {
    CHECK(count < count_max, count);
    of[count++] = module;
  }
};

// Consecutive modules whose outputs one matrix product computes, side by side in the columns of y.
struct FusedModules {
  u32 first = 0, count = 0;
};

// Rank and scale of a module's adapter; rank 0: it has none.
struct AdapterSize {
  u32 r = 0;
  double scale = 1;
};
AdapterSize adapter_size(const ModelGraph&, u32 layer, const LinearModule&);
inline bool is_target(const ModelGraph& g, u32 layer, const LinearModule& module) {
  return adapter_size(g, layer, module).r != 0;
}

// Scratch of the adapters' products, a part of a layer's workspace. It serves one module at a time.
struct AdapterScratch {
  Values low;       // [R, r]: scale x A^T, with room for the largest r
  Values low_grad;  // [R, r]: scale dy B
  Values dropped;   // [R, widest in of all targets]: x after dropout; null without dropout
};
// RETURNS: null pointers, and takes no bytes, if the model has no LoRA.
AdapterScratch adapter_scratch(const ModelGraph&, WorkspaceCutter&);

// Gradient accumulators of a block's adapters.
struct AdapterGradients {
  float* window = nullptr;  // null without adapters
  bool accumulate = true;
};
AdapterGradients adapter_gradients_of(const BlockContext&, const BlockBackward&);

// Adapters of one layer, in device memory. An adapter reads the x of its module, with its own dropout. Every
// call is a no-op for modules without an adapter, and for models without LoRA.
class Adapters {
 public:
  // `windows`: the windows of the layer's block.
  Adapters(const BlockContext&, const LinearModules&, std::span<const std::byte* const> windows,
           const AdapterScratch&);

  bool has(u32 module) const { return tensor(module) != none; }

  // y += scale (x A^T) B^T for each module, in the module's columns of y.
  void add_to(FusedModules, ConstValues x, Values y) const;
  // dx += scale (dy B) A, with the backward of x's dropout.
  void add_input_gradient(FusedModules, ConstValues dy, Values dx) const;
  // dx = scale (dy B) A, with the backward of x's dropout, for a module whose product has no other module.
  void input_gradient(u32 module, ConstValues dy, Values dx) const;
  // dB = dy^T (scale x A^T), dA = (scale dy B)^T x
  void weight_gradients(FusedModules, ConstValues x, ConstValues dy, const AdapterGradients&) const;
  // add_input_gradient and weight_gradients in one call, which computes scale dy B only once.
  // REQUIRES: x and dx do not overlap.
  void gradients(FusedModules, ConstValues x, ConstValues dy, Values dx, const AdapterGradients&) const;

  // Computes scale x A^T into the scratch.
  // RETURNS: the product that follows, y = (scale x A^T) B^T [R, out], packed. The caller may add an epilogue
  // before it runs the product.
  Matmul up(u32 module, ConstValues x) const;

 private:
  struct Place {
    u32 module, column;  // column: first column in y
  };
  template <class Fn>
  void for_targets(FusedModules, Fn) const;
  u32 columns(FusedModules) const;
  u32 tensor(u32 module) const;  // index of A in the window, or `none`; B is the next tensor
  AdapterSize size(u32 module) const;
  Param param(u32 tensor) const;
  Dropout dropout_of(u32 module) const;
  ConstValues make_low(u32 module, ConstValues x) const;  // RETURNS: x after the adapter's dropout
  void make_low_grad(u32 module, ConstValues dy, u32 dy_stride) const;
  void module_weight_gradients(Place, FusedModules, ConstValues x, ConstValues dy,
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
