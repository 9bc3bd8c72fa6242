// A GPT-2 layer: x + attention(ln_1(x)), then + mlp(ln_2(.)). Attention and MLP are parts, each with what
// forward and recompute share, so that their bits cannot differ, and its backward.
#pragma once

#include "model/block_calls.h"
#include "model/gpt2/layouts.h"
#include "model/gpt2/tensors.h"
#include "model/norm.h"

namespace tidepool::gpt2 {

// Parameters of a layer on its device.
struct Layer {
  const BlockContext& c;
  const WindowParams w;
  const Adapters adapters;

  u32 h() const { return c.graph.config.width; }
  u32 inner() const { return c.graph.config.inner(); }
};
Layer layer_of(const BlockContext&, std::span<const std::byte* const> windows, const AdapterScratch&);

// A layer on its way back. The gradient of the residual stream, b.grad, stays in place; each part adds its
// share.
struct LayerGradients {
  const Layer& layer;
  const BlockBackward& b;
  const WindowGradients g;
  const AdapterGradients adapters;
  const BackwardWorkspace& workspace;
  const LayerInside& inside;
};

void layer_forward(const BlockContext&, const BlockForward&);
void layer_backward(const BlockContext&, const BlockBackward&);

// ---- attention

// middle = x + dropout(attention(ln_1(x)) c_proj). `norm` may be `attention`.
struct AttentionHalf {
  ConstValues x;     // [R, H]
  Values norm;       // [R, H]
  Values qkv;        // [R, 3H]
  Values attention;  // [R, H]
  float* lse;        // [B, NH, T], or null
  Values middle;     // [R, H]
};
void attention_half(const Layer&, const AttentionHalf&);
void attention_half_backward(const LayerGradients&);

// ---- MLP

// pre = norm c_fc; and GELU of it in `y`, where that is not null. `pre` may be null then: it lies in `y`
// meanwhile.
struct FirstOfMlp {
  ConstValues norm;  // [R, H]
  Values pre;        // [R, I]
  Values y;          // [R, I]
};
void first_of_mlp(const Layer&, const FirstOfMlp&);
// out = middle + dropout(y c_proj)
void last_of_mlp(const Layer&, ConstValues y, Values out, ConstValues middle);
void mlp_backward(const LayerGradients&);

// ---- of both

enum class NormSite : u8 { ln_1, ln_2 };
// y = ln(x); moments are for backward, or null.
void layer_norm_of(const Layer&, NormSite, ConstValues x, Values y, const NormScratch* moments = nullptr);
// b.grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const LayerGradients&, NormSite, ConstValues x);

// y = residual + dropout(x weight + bias), with the module's adapter: its share takes the same mask, so it
// may come after.
struct ResidualProduct {
  LayerTensor weight, bias;
  JoinedModules module;
  DropoutSite site;
  u32 k;
};
void residual_product(const Layer&, const ResidualProduct&, ConstValues x, Values y, ConstValues residual);
// The gradient as it comes out of a residual dropout.
ConstValues through_dropout(const LayerGradients&, DropoutSite);

struct Weights {
  LayerTensor weight, bias;
  u32 n, k;
  JoinedModules module;
};
// Gradients of the weights, if they are trained.
void weight_gradient(const LayerGradients&, const Weights&, ConstValues x, ConstValues dy);
// Gradients of the weights and the module's adapter, and workspace.narrow = dy weight^T, and through the
// adapter.
void gradients(const LayerGradients&, const Weights&, ConstValues x, ConstValues dy);

}  // namespace tidepool::gpt2
