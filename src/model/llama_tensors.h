// The tensors of a Llama-like layer: one table for all families, each of which has some of them.
#pragma once

#include <string_view>

#include "kernels/values.h"
#include "model/adapters.h"
#include "model/window_params.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// In window order. What one product reads lies side by side: q, k, v; gate, up; and their biases.
enum class LlamaTensor : u8 {
  input_norm,
  q,
  k,
  v,
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  o,
  o_bias,
  post_norm,
  gate,
  up,
  gate_bias,
  up_bias,
  down,
  down_bias,
};
inline constexpr u32 llama_tensor_count = 18;

// The linear layers, in the order of their products.
LinearModules llama_linear_modules(const ModelConfig&);
namespace llama_modules {
inline constexpr JoinedModules qkv = {0, 3}, o = {3, 1}, gate_up = {4, 2}, down = {6, 1};
}

// "self_attn.q_proj.weight"
std::string_view name(LlamaTensor);
// Whether it goes on where the tensor before ends.
bool is_joined(LlamaTensor);
bool has_tensor(const ModelConfig&, LlamaTensor);
std::vector<u64> shape_of(const ModelConfig&, LlamaTensor);
// Which of its window's tensors it is; `none` where the family has it not.
u32 tensor_index(const ModelConfig&, LlamaTensor);

// A layer's parameters in device memory, and their accumulators. What a family has not is null.
struct LlamaParams {
  const ModelConfig& config;
  const WindowParams window;
  const Adapters adapters;

  Param operator[](LlamaTensor tensor) const {
    const u32 i = tensor_index(config, tensor);
    return i == none ? Param{} : window[i];
  }
};
struct LlamaGradients {
  const ModelConfig& config;
  const WindowGradients window;

  float* operator[](LlamaTensor tensor) const {
    const u32 i = tensor_index(config, tensor);
    return i == none ? nullptr : window[i];
  }
};

}  // namespace tidepool
