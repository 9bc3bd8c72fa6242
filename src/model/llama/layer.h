// A Llama-like layer: x + o(attention(norm(x))), then + down(glu(gate_up(norm(.)))). Gemma also normalises
// each branch before it is added: x + norm(o(.)). Attention and MLP each have functions that forward and
// recompute share, so that the bits of the two cannot differ, and a backward.
#pragma once

#include "model/block_calls.h"
#include "model/llama/layouts.h"
#include "model/llama/tensors.h"
#include "model/norm.h"

namespace tidepool::llama {

// Parameters of a layer, in device memory. A tensor that the family does not have is null.
struct Layer {
  const BlockContext& c;
  const WindowParams window;
  const Adapters adapters;

  const ModelConfig& config() const { return c.graph.config; }
  Param operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), block_of(c).kind, tensor);
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
  // RETURNS: the input of attention: q and k after norm and rotation, and v.
  Values turned() const { return config().qk_norm() ? workspace.turned : inside.qkv; }
  float* operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), block_of(layer.c).kind, tensor);
    return i == none ? nullptr : window[i];
  }
};

void layer_forward(const BlockContext&, const BlockForward&);
void layer_backward(const BlockContext&, const BlockBackward&);

// ---- attention of a layer with experts: middle, the experts' input and the router's choice

void attention_block_forward(const BlockContext&, const BlockForward&);
void attention_block_backward(const BlockContext&, const BlockBackward&);

// ---- attention

// middle = x + o(attention(turned(qkv(norm(x))))). `norm` and `attention` may be one array, and so may
// `branch` and `middle`. `turned` and `qkv` may be one array if q and k have no norms: the gradients of those
// norms need qkv from before the norm.
struct AttentionHalf {
  ConstValues x;      // [R, H]
  const i32* starts;  // [B, T], or null
  Values norm;        // [R, H]
  Values qkv;         // [R, A]
  Values turned;      // [R, A]
  Values attention;   // [R, Q]
  float* lse;         // [B, NH, T], or null
  Branch branch;      // o's output, if branches are normalised
  Values middle;      // [R, H]
};
void attention_half(const Layer&, const AttentionHalf&);
// out = q and k of `qkv`, normalised per head if the family does so, and rotated; and v unchanged.
void turn(const Layer&, const i32* starts, ConstValues qkv, Values out);
void attention_half_backward(const LayerGradients&);

// ---- MLP

// gate_up [R, 2I] = the product of the second norm's output with gate and up.
void gate_up_of(const Layer&, ConstValues norm, Values gate_up);
// out = middle + down(glu(gate_up)). `inner` [R, I] receives the gated unit's output.
struct RestOfMlp {
  ConstValues gate_up, middle;
  Values inner;
  Branch branch;  // down's output, if branches are normalised
  Values out;
};
void rest_of_mlp(const Layer&, const RestOfMlp&);
void mlp_backward(const LayerGradients&);

// ---- shared by attention and MLP

// y = norm(x). `moments` receives rstd for backward, or is null.
void norm_of(const Layer&, LayerTensor weight, ConstValues x, Values y, const NormScratch* moments = nullptr);
// b.grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const LayerGradients&, LayerTensor weight, ConstValues x);

// y = x w^T + b. The weights [n, k] begin at tensor `weight`, and may be several tensors side by side.
struct Product {
  LayerTensor weight, bias;
  u32 n, k;
  JoinedModules modules;
};
// Runs one product, including its LoRA adapters.
void product(const Layer&, const Product&, ConstValues x, Values y);
// Product that is added to the residual stream: y = residual + x w^T + b. If branches are normalised,
// branch = x w^T + b and y = residual + norm(branch).
struct AddBranch {
  LayerTensor norm;  // norm of the branch
  ConstValues x, residual;
  Branch branch;
  Values y;
};
void add_branch(const Layer&, const Product&, const AddBranch&);
// RETURNS: the gradient of a branch before its norm. If branches are normalised, this is `to`, and the norm's
// backward writes it; otherwise it is b.grad.
ConstValues branch_gradient(const LayerGradients&, LayerTensor norm, const Branch&, Values to);
// Gradients of weight and bias. A no-op if they are frozen.
void weight_gradient(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);
// dx = dy w
void input_gradient(const LayerGradients&, const Product&, ConstValues dy, Values dx);
// Weight and input gradients of one product, including its LoRA adapters.
void gradients(const LayerGradients&, const Product&, ConstValues x, ConstValues dy, Values dx);

}  // namespace tidepool::llama
