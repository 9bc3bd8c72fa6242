// A layer of DeepSeek-V3: latent attention, then a gated MLP, each added to the residual stream. In a layer
// with experts the attention block also routes, and its MLP is that of the shared experts: its output is
// added to `middle`, to which the groups of experts add theirs. Forward and recompute share their functions,
// so that the bits of the two cannot differ.
#pragma once

#include "model/block_calls.h"
#include "model/deepseek/layouts.h"
#include "model/deepseek/tensors.h"
#include "model/norm.h"

namespace tidepool::deepseek {

// Parameters of a layer, in device memory. A tensor that the block does not have is null.
struct Layer {
  const BlockContext& c;
  const WindowParams window;
  const Adapters adapters;

  const ModelConfig& config() const { return c.graph.config; }
  BlockKind kind() const { return block_of(c).kind; }
  u32 inner() const { return mlp_inner(config(), kind()); }
  ProductModules modules() const { return product_modules(config(), kind()); }
  Param operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), kind(), tensor);
    return i == none ? Param{} : window[i];
  }
};
// `scratch`: workspace of the adapters' products.
Layer layer_of(const BlockContext&, std::span<const std::byte* const> windows, const AdapterScratch& scratch);

// State of a layer's backward. The gradient of the residual stream, b.grad, is updated in place: attention
// and MLP each add their share.
struct LayerGradients {
  const Layer& layer;
  const BlockBackward& b;
  const WindowGradients window;
  const AdapterGradients adapters;
  const BackwardWorkspace& workspace;
  const LayerInside& inside;

  const ModelConfig& config() const { return layer.config(); }
  float* operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), layer.kind(), tensor);
    return i == none ? nullptr : window[i];
  }
};

// ---- attention

// Writes all of `inside` but gate_up: middle = x + o(attention(...norm(x))).
struct AttentionHalf {
  ConstValues x;      // [R, H]
  const i32* starts;  // [B, T], or null
  Values norm;        // [R, H]
  const LatentScratch& latents;
  const LayerInside& inside;
};
void attention_half(const Layer&, const AttentionHalf&);
void attention_half_backward(const LayerGradients&);

// ---- MLP

// gate_up [R, 2I] = the product of the second norm's output with gate and up.
void gate_up_of(const Layer&, ConstValues norm, Values gate_up);
// out = middle + down(glu(gate_up)). `inner` [R, I] receives the gated unit's output.
struct RestOfMlp {
  ConstValues gate_up, middle;
  Values inner, out;
};
void rest_of_mlp(const Layer&, const RestOfMlp&);
// dnorm = gradient of the second norm's output; += if `add`. Leaves b.grad as it is.
void mlp_backward(const LayerGradients&, Values dnorm, bool add);

// ---- shared by attention and MLP

// y = norm(x). `moments` receives rstd for backward, or is null.
void norm_of(const Layer&, LayerTensor weight, ConstValues x, Values y, const NormScratch* moments = nullptr);
// b.grad += gradient of the norm's input. `dy`: gradient of its output.
void norm_gradient(const LayerGradients&, LayerTensor weight, ConstValues x, ConstValues dy, bool accumulate);

// y = x w^T + b. The weights [n, k] begin at tensor `weight`, and may be several tensors side by side.
struct Product {
  LayerTensor weight, bias = LayerTensor::absent;
  u32 n = 0, k = 0;
  JoinedModules modules;
};
// Runs one product, including its LoRA adapters; y = residual + the product, if there is a residual.
void product(const Layer&, const Product&, ConstValues x, Values y, ConstValues residual = {});
// Gradients of weight and bias. A no-op if they are frozen.
void weight_gradient(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);
// Weight and input gradients of one product, including its LoRA adapters; dx += if `add`.
void gradients(const LayerGradients&, const Product&, ConstValues x, ConstValues dy, Values dx,
               bool add = false);

}  // namespace tidepool::deepseek
