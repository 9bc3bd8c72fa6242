// A GPT-2 layer: x + attention(ln_1(x)), then + mlp(ln_2(.)). Attention and MLP each have functions that
// forward and recompute share, so that the bits of the two cannot differ, and a backward.
#pragma once

#include "model/block_calls.h"
#include "model/gpt2/layouts.h"
#include "model/gpt2/tensors.h"
#include "model/norm.h"

namespace tidepool::gpt2 {

// Parameters of a layer, in device memory.
struct Layer {
  const BlockContext& c;
  const WindowParams window;
  const Adapters adapters;

  u32 h() const { return c.graph.config.width; }
  u32 inner() const { return c.graph.config.inner(); }
};
Layer layer_of(const BlockContext&, std::span<const std::byte* const> windows, const AdapterScratch&);

// State of a layer's backward. The gradient of the residual stream, b.grad, is updated in place: attention
// and MLP each add their share.
struct LayerGradients {
  const Layer& layer;
  const BlockBackward& b;
  const WindowGradients window;
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

// pre = norm c_fc, y = gelu(pre). If `y` is null, GELU is not computed. If `pre` is null, it is not stored.
// REQUIRES: at most one of the two is null.
struct FirstOfMlp {
  ConstValues norm;  // [R, H]
  Values pre;        // [R, I]
  Values y;          // [R, I]
};
void first_of_mlp(const Layer&, const FirstOfMlp&);
// out = middle + dropout(y c_proj)
void last_of_mlp(const Layer&, ConstValues y, Values out, ConstValues middle);
void mlp_backward(const LayerGradients&);

// ---- shared by attention and MLP

enum class NormSite : u8 { ln_1, ln_2 };
// y = ln(x). `moments` receives mean and rstd for backward, or is null.
void norm_of(const Layer&, NormSite, ConstValues x, Values y, const NormScratch* moments = nullptr);
// b.grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const LayerGradients&, NormSite, ConstValues x);

// y = residual + dropout(x weight + bias), including the module's adapter. The adapter's product takes the
// same mask, so it may be added afterwards.
struct ResidualProduct {
  LayerTensor weight, bias;
  JoinedModules module;
  DropoutSite site;
  u32 k;
};
void residual_product(const Layer&, const ResidualProduct&, ConstValues x, Values y, ConstValues residual);
// RETURNS: b.grad after the backward of a residual dropout.
ConstValues through_dropout(const LayerGradients&, DropoutSite);

struct Product {
  LayerTensor weight, bias;
  u32 n, k;
  JoinedModules module;
};
// Gradients of weight and bias. A no-op if they are frozen.
void weight_gradient(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);
// Weight and input gradients of one product, including its LoRA adapter. workspace.narrow receives the input
// gradient.
void gradients(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);

}  // namespace tidepool::gpt2
