// Rows of mixers and MLPs, and what their code sees of a layer. A layer is norm, mixer, norm, MLP, or has
// only one of the two with its norm; layer.cpp composes them. Forward and recompute call the same functions,
// so that the bits of the two cannot differ.
#pragma once

#include <optional>
#include <span>

#include "model/block_calls.h"
#include "model/layer_frames.h"
#include "model/layer_tensors.h"

namespace tidepool {

// Product of a linear layer: y = x w + b. The weights [n, k] begin at tensor `weight`. A fused product has
// several tensors, side by side.
struct Product {
  u32 weight = none, bias = none;  // numbers in the window; bias: or `none`
  u32 n = 0, k = 0;
  FusedModules modules;  // the product computes their outputs
};

// Parameters of a part of a layer, in device memory.
struct Layer {
  // `scratch`: workspace of the adapters' products.
  Layer(const BlockContext&, std::span<const std::byte* const> windows, const AdapterScratch& scratch);

  const BlockContext& c;
  const LayerPart part;
  const LayerTensors tensors;
  const WindowParams window;
  const Adapters adapters;

  const ModelConfig& config() const { return c.graph.config; }
  const LayerStyle& style() const { return tidepool::style(config().family); }
  u32 number() const { return block_of(c).layer; }
  bool has_mixer() const { return part.mixer != MixerKind::none; }
  bool has_mlp() const { return part.mlp != MlpKind::none; }
  // RETURNS: a tensor by its number or role; none if the layer does not have it.
  Param at(u32 tensor) const { return tensor == none ? Param{} : window[tensor]; }
  template <class Role>
  Param operator[](Role role) const {
    return at(tensors.find(role));
  }
  // RETURNS: the product of `count` matrices side by side, the first of which is `weight`.
  template <class Role>
  Product product(Role weight, Role bias, u32 count = 1) const {
    return product_of(tensors.find(weight), tensors.find(bias), count);
  }

 private:
  Product product_of(u32 weight, u32 bias, u32 count) const;
};

// State of a layer's backward. The gradient of the residual stream, b.grad, is updated in place: mixer and
// MLP each add their share.
struct LayerGradients {
  const Layer& layer;
  const BlockBackward& b;
  const WindowGradients window;
  const AdapterGradients adapters;
  const LayerBackwardFrame& frame;
  const LayerInside& inside;
  std::byte* past;       // as in MixerForward
  std::byte* past_grad;  // likewise

  const ModelConfig& config() const { return layer.config(); }
  // Inputs of mixer and MLP: outputs of their norms, which are both in the frame's `norm`, one after the
  // other; in styles without these norms the residual stream.
  ConstValues mixer_input() const { return layer.style().input_norms ? frame.buffers.norm : b.input; }
  ConstValues mlp_input() const { return layer.style().input_norms ? frame.buffers.norm : before_mlp(); }
  // The residual stream that the MLP's norm reads.
  ConstValues before_mlp() const { return layer.has_mixer() ? inside.post_attention : b.input; }
  // Place of the gradient of the mixer's input. add: it is added, to the residual stream's.
  struct Place {
    Values values;
    bool add;
  };
  Place mixer_input_gradient() const {
    return layer.style().input_norms ? Place{frame.buffers.narrow, false} : Place{b.grad, true};
  }
  // RETURNS: the gradient of a tensor; null if it is frozen, or the layer does not have it.
  float* at(u32 tensor) const { return tensor == none ? nullptr : window[tensor]; }
  template <class Role>
  float* operator[](Role role) const {
    return at(layer.tensors.find(role));
  }
};

// ---- mixers

// Sum of the residual stream and a part's output: y = residual + factor dropout(x w + b). If branches are
// normalised, branch = x w + b and y = residual + norm(branch). Backward has y's gradient in `dy`.
struct ResidualSum {
  ConstValues residual;  // [R, H]; or none: 0
  Branch branch;
  Values y;        // [R, H]; may be the residual. Null: the sum is not needed
  ConstValues dy;  // [R, H]; none: b.grad
  DropoutSite site{};
  NormRole norm{};
};

struct MixerForward {
  ConstValues norm;      // [R, H]: output of the input norm
  const i32* starts;     // [B, T], or null
  const KeyHole* holes;  // [B, T], or null
  std::byte* inside;     // the mixer's, or null
  std::byte* workspace;  // of the layer
  Direction frame;       // the workspace is laid out for this direction
  // [R, 2 K]: k and v of another layer, which the layer reads; and place of its own, which others read, or
  // none.
  ConstValues read_keys;
  Values write_keys;
  ResidualSum sum;  // sum.y: the residual stream after attention
  std::byte* past;  // of the tile's sequence; null: the micro-batch is not cut into tiles
};

// Bytes that the tiles of one sequence hand to later ones, and of their gradients.
struct PastBytes {
  u64 values = 0, gradients = 0;
};

struct Mixer {
  void (*tensors)(const ModelConfig&, u32 layer, LayerTensors&);
  // RETURNS: the shape of its attention; nothing if it is none.
  std::optional<AttentionShape> (*attention)(const ModelGraph&, u32 layer);
  // If true, forward always writes the inside: if it is not kept, to the end of the workspace. If false,
  // forward gets a null inside if it is not kept, and backward overwrites the values of a recomputed inside
  // with the MLP's gradient.
  bool inside_always;
  // The past: what the mixer makes of tokens and later tiles of their sequence read. For graphs in tiles.
  PastBytes (*past_bytes)(const ModelGraph&, u32 layer);
  u64 (*inside_bytes)(const ModelGraph&, u32 layer);
  // Takes the mixer's part of the workspace, from its beginning.
  ForwardBuffers (*forward_frame)(const ModelGraph&, u32 layer, MlpWidths, WorkspaceCutter&);
  BackwardBuffers (*backward_frame)(const ModelGraph&, u32 layer, MlpWidths, WorkspaceCutter&);
  // Writes the tile's part of `past`, and perhaps `inside`. Null without a past.
  void (*add_to_past)(const Layer&, const MixerForward&);
  // The same from a kept inside.
  void (*restore_past)(const LayerGradients&);
  // Writes `inside`, sum.y, and the tile's part of `past`.
  void (*forward)(const Layer&, const MixerForward&);
  // Recomputes the values that backward reads and the inside does not contain.
  void (*restore)(const LayerGradients&);
  // Writes the gradient of the mixer's input to mixer_input_gradient(). `dout`: gradient of the mixer's
  // output, which forward added to the residual stream. Recomputes the input norm.
  void (*backward)(const LayerGradients&, ConstValues dout);
};
const Mixer& mixer_row(MixerKind);

// ---- MLPs

struct MlpForward {
  ConstValues x;     // [R, H]: residual stream
  ConstValues norm;  // [R, H]: output of the MLP's norm
  Values values;     // [R, MlpWidths::values]; null: not written
  Values inner;      // [R, MlpWidths::inner]
  ResidualSum sum;
  const BlockForward* f = nullptr;  // experts only: the block's arguments, for the router; null: recompute
  RouterScratch router;             // experts only
  ConstValues branches = {};        // [2, R, H]: MlpKind::branches only
};

struct MlpBackward {
  ConstValues dout;  // [R, H]: gradient of the last product; of the sum of branches
  Values dnorm;      // [R, H]: gradient of the norm's output; added to if `add`
  bool add = false;
};

struct Mlp {
  void (*tensors)(const ModelConfig&, u32 layer, LayerTensors&);
  MlpWidths (*widths)(const ModelConfig&, u32 layer);
  void (*forward)(const Layer&, const MlpForward&);
  // Writes `values` again, from the norm's output.
  void (*recompute)(const Layer&, ConstValues norm, Values values);
  void (*backward)(const LayerGradients&, const MlpBackward&);
};
const Mlp& mlp_row(MlpKind);

// ---- norms and products, shared by mixers and MLPs

// RETURNS: the norm of x, written to `to`; x itself if the part has no such norm.
ConstValues input_norm_of(const Layer&, NormRole, ConstValues x, Values to,
                          const NormScratch* moments = nullptr);
// y = norm(x). `moments` receives mean and rstd for backward, or is null.
void norm_of(const Layer&, NormRole, ConstValues x, Values y, const NormScratch* moments = nullptr);
// y = residual + norm(x)
void add_norm(const Layer&, NormRole, ConstValues x, ConstValues residual, Values y);
// b.grad += gradient of the norm's input x. `dy`: gradient of its output.
// REQUIRES: the frame's moments are those of x.
void norm_gradient(const LayerGradients&, NormRole, ConstValues x, ConstValues dy);
// dx = gradient of the norm's input x, whose moments it makes. The frame's `norm` is scratch.
void branch_norm_gradient(const LayerGradients&, NormRole, ConstValues x, ConstValues dy, Values dx);
// The frame's `norm` = the input norm's output, with its moments. A no-op without that norm.
void recompute_input_norm(const LayerGradients&);

// RETURNS: the product y = x w + b, without adapters, to be run.
Matmul product_matmul(const Layer&, const Product&, ConstValues x, Values y);
// Runs one product, including its LoRA adapters.
void product(const Layer&, const Product&, ConstValues x, Values y);
// y = residual + norm(branch)
void add_branch(const Layer&, const ResidualSum&);
// Runs the last product of mixer or MLP.
void add_product(const Layer&, const Product&, ConstValues x, const ResidualSum&);
// RETURNS: the gradient of the product in a residual sum, from that of y: `to`, if branches are normalised;
// the frame's `dropped`, if the sum drops out; otherwise b.grad.
ConstValues sum_gradient(const LayerGradients&, const ResidualSum&, Values to);
// Gradients of weight and bias. A no-op if they are frozen.
void weight_gradient(const LayerGradients&, const Product&, ConstValues x, ConstValues dy);
// RETURNS: the product dx = dy w^T, without adapters, to be run.
Matmul input_gradient(const Layer&, const Product&, ConstValues dy, Values dx);
// Weight and input gradients of one product, including its LoRA adapters; dx += if `add`.
void gradients(const LayerGradients&, const Product&, ConstValues x, ConstValues dy, Values dx,
               bool add = false);

}  // namespace tidepool
