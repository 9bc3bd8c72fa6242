// LayerTensors lists the tensors of a part of a layer in the order of its window. Norms, mixer and MLP
// each add theirs. Names in files, sizes of products, linear layers and places in the window follow from the
// list.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/adapters.h"

namespace tidepool {

// Tensors are found by role. Each mixer and MLP has an enum of roles, which begins with one of these numbers.
inline constexpr u8 mixer_roles = 12, mlp_roles = 32, router_roles = 48, layer_roles = 56, roles_end = 64;

enum class NormRole : u8 {
  input,
  input_bias,
  attention_branch,
  mlp,
  mlp_bias,
  mlp_branch,
  inputs_branch,
  router,  // of experts that are a branch, as the next
  experts,
  expert_branch,
};

// LayerPart is the part of a layer that one of its blocks computes. Groups of experts are blocks of their
// own.
struct LayerPart {
  MixerKind mixer{};
  MlpKind mlp{};
  bool ends = true;  // the layer's output: adds the layer's inputs, and applies the layer's scalar

  bool operator==(const LayerPart&) const = default;
};
// RETURNS: the part of the layer's first block.
LayerPart first_part(const ModelConfig&, u32 layer);
// The part of BlockKind::layer_end.
inline constexpr LayerPart end_part = {MixerKind::none, MlpKind::branches};
// RETURNS: all parts of a layer.
std::vector<LayerPart> layer_parts(const ModelConfig&, u32 layer);
inline LayerPart part_of(const ModelGraph& g, const Block& block) {
  return block.kind == BlockKind::layer_end ? end_part : first_part(g.config, block.layer);
}

enum class LayerRole : u8 {
  output_scale = layer_roles,
  inputs_gate,  // of the layer's inputs, as the next
  inputs_projection,
  absent,  // the bias of a product without one
};

struct LayerTensor {
  std::string_view path, suffix;  // within the layer, as in files: "self_attn.q_proj" and ".weight"
  u32 rows = 0;                   // outputs of a matrix, or elements of a vector
  u32 columns = 0;                // inputs of a matrix; 0: a vector
  u32 taps = 0;                   // of a convolution of each row by itself, [rows, 1, taps]; 0: it is none
  bool fused = false;             // starts where the tensor before it ends: one product reads both
  bool residual = false;          // its product is added to the residual stream
  bool router = false;
  bool adapted = true;          // a matrix may have an adapter
  bool constant = false;        // its gradient is 0, and it does not decay
  std::array<u32, 3> joined{};  // rows of the matrices that it joins; none: it is one
  std::optional<Init> init;     // how it is drawn, if its shape and name do not say

  bool is_matrix() const { return columns != 0; }
  // True for the linear layers that adapters know, routers apart.
  bool is_module() const { return is_matrix() && !router && adapted; }
};

class LayerTensors {
 public:
  LayerTensors(const ModelConfig& c, u32 layer) : LayerTensors(c, layer, first_part(c, layer)) {}
  LayerTensors(const ModelConfig&, u32 layer, LayerPart);

  template <class Role>
  LayerTensor& add(Role role, const LayerTensor& tensor) {
    CHECK(count_ < count_max, count_);
    numbers_[static_cast<u32>(role)] = static_cast<u8>(count_ + 1);
    return list_[count_++] = tensor;
  }
  template <class Role>
  LayerTensor& add_matrix(Role role, std::string_view path, u32 out, u32 in) {
    return add(role, {.path = path, .suffix = ".weight", .rows = out, .columns = in});
  }
  template <class Role>
  LayerTensor& add_bias(Role role, std::string_view path, u32 elements) {
    return add(role, {.path = path, .suffix = ".bias", .rows = elements});
  }
  template <class Role>
  void add_norm(Role role, std::string_view path, u32 elements) {
    add(role, {.path = path, .suffix = ".weight", .rows = elements});
  }

  // RETURNS: the number of a tensor in the window; `none` if the layer does not have it.
  template <class Role>
  u32 find(Role role) const {
    const u8 number = numbers_[static_cast<u32>(role)];
    return number == 0 ? none : number - 1;
  }
  u32 count() const { return count_; }
  const LayerTensor& operator[](u32 tensor) const { return list_[tensor]; }

  // RETURNS: the linear layers, in the order of their matrices; the router is the last.
  LinearModules modules() const;
  // RETURNS: a matrix's number among them.
  u32 module(u32 matrix) const;

 private:
  void add_mixer(const ModelConfig&, u32 layer, LayerPart);
  void add_mlp(const ModelConfig&, u32 layer, LayerPart);

  static constexpr u32 count_max = 28;
  std::array<LayerTensor, count_max> list_{};
  std::array<u8, roles_end> numbers_{};  // by role; one more than the tensor's number, 0: absent
  u32 count_ = 0;
};

// RETURNS: the window of a part of a layer: "layers.3" or "h.3"; "layers.3.end".
Window layer_window(const ModelGraph&, u32 layer, LayerPart);
inline Window layer_window(const ModelGraph& g, u32 layer) {
  return layer_window(g, layer, first_part(g.config, layer));
}

}  // namespace tidepool
