// A Llama-like layer: x + o(attention(norm(x))), then + down(glu(gate_up(norm(.)))). Gemma normalises what it
// adds: x + norm(o(.)). Attention and MLP are parts, each with what forward and recompute share, so that
// their bits cannot differ, and its backward.
#pragma once

#include "model/block_calls.h"
#include "model/llama/layouts.h"
#include "model/llama/tensors.h"
#include "model/norm.h"

namespace tidepool::llama {

// Parameters of a layer on its device. A tensor that the family has not is null.
struct Layer {
  const BlockContext& c;
  const WindowParams window;
  const Adapters adapters;

  const ModelConfig& config() const { return c.graph.config; }
  Param operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), tensor);
    return i == none ? Param{} : window[i];
  }
};
// `scratch` is where the adapters' products lie.
Layer layer_of(const BlockContext&, std::span<const std::byte* const> windows, const AdapterScratch& scratch);

// A layer on its way back. The gradient of the residual stream, b.grad, stays in place; each part adds its
// share.
struct LayerGradients {
  const Layer& layer;
  const BlockBackward& b;
  const WindowGradients window;
  const AdapterGradients adapters;
  const BackwardWorkspace& workspace;
  const LayerInside& inside;

  const ModelConfig& config() const { return layer.config(); }
  // q and k as attention saw them.
  Values turned() const { return config().qk_norm() ? workspace.turned : inside.qkv; }
  float* operator[](LayerTensor tensor) const {
    const u32 i = tensor_index(config(), tensor);
    return i == none ? nullptr : window[i];
  }
};

void layer_forward(const BlockContext&, const BlockForward&);
void layer_backward(const BlockContext&, const BlockBackward&);

// ---- attention

// middle = x + o(attention(turned(qkv(norm(x))))). `norm` may be `attention`; `turned` may be `qkv` where
// heads have no norms, whose gradients need qkv as it was; `branch` may be `middle`.
struct AttentionHalf {
  ConstValues x;      // [R, H]
  const i32* starts;  // [B, T], or null
  Values norm;        // [R, H]
  Values qkv;         // [R, A]
  Values turned;      // [R, A]
  Values attention;   // [R, Q]
  float* lse;         // [B, NH, T], or null
  Branch branch;      // o's output, where branches are normalised
  Values middle;      // [R, H]
};
void attention_half(const Layer&, const AttentionHalf&);
// `out` = q and k of `qkv` with their heads' norms, turned; and v.
void turn(const Layer&, const i32* starts, ConstValues qkv, Values out);
void attention_half_backward(const LayerGradients&);

// ---- MLP

// [R, 2I] of the second norm's output.
void gate_up_of(const Layer&, ConstValues norm, Values gate_up);
// out = middle + down(glu(gate_up)); `inner` [R, I] takes the gated unit's output.
struct RestOfMlp {
  ConstValues gate_up, middle;
  Values inner;
  Branch branch;  // down's output, where branches are normalised
  Values out;
};
void rest_of_mlp(const Layer&, const RestOfMlp&);
void mlp_backward(const LayerGradients&);

// ---- of both

// y = norm(x); moments are for backward, or null.
void norm_of(const Layer&, LayerTensor weight, ConstValues x, Values y, const NormScratch* moments = nullptr);
// b.grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const LayerGradients&, LayerTensor weight, ConstValues x);

// y = x w^T + b of weights [n, k] that begin with `weight`.
struct Product {
  LayerTensor weight, bias;
  u32 n, k;
  JoinedModules modules;
};
// With the product's adapters, as below.
void product(const Layer&, const Product&, ConstValues x, Values y);
// y = residual + x w^T + b; or residual + norm(branch), branch = x w^T + b, where branches are normalised.
struct AddBranch {
  LayerTensor norm;  // of the branch
  ConstValues x, residual;
  Branch branch;
  Values y;
};
void add_branch(const Layer&, const Product&, const AddBranch&);
// RETURNS: the gradient of the product's output in a branch: b.grad, or `to`, where the norm's is written.
ConstValues branch_gradient(const LayerGradients&, LayerTensor norm, const Branch&, Values to);
// Gradients of the weights, if they are trained.
void weight_gradient(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);
// dx = dy w
void input_gradient(const LayerGradients&, const Product&, ConstValues dy, Values dx);
// Both, and those of and through the product's adapters.
void gradients(const LayerGradients&, const Product&, ConstValues x, ConstValues dy, Values dx);

}  // namespace tidepool::llama
