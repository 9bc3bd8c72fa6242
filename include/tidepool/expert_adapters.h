// LayerAdapters says which adapters a layer's experts and router have, and how PEFT lays them out.
//
// transformers 5 has the matrices of all experts of a layer in one parameter, and PEFT gives it one adapter
// (target_parameters). In the adapter's file, E experts with rank r each have
//
//   lora_A.weight [r E, in]   row e r + j is row j of expert e
//   lora_B.weight [out, r E]  column j E + e is column j of expert e
//
// under `experts.base_layer` for gate_up_proj and `experts` for down_proj, or `experts` for the only one of
// the two. gate and up then share A. In transformers 4 each expert's matrix was a module (target_modules),
// and has an adapter of its own: `experts.E.gate_proj.lora_A.weight` [r, in] ...
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/lora.h"
#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: true if one of `targets` is the path or its end, after a dot.
bool names_path(const std::vector<std::string>& targets, std::string_view path);

enum class AdapterForm : u8 { none, single, joined };

// Adapter of one matrix, or of gate and up together, of each expert.
struct ExpertAdapter {
  std::string_view name;       // "gate_up_proj"; single: "gate_proj", or as the family calls it
  u32 r = 0, in = 0, out = 0;  // A [r, in], B [out, r]
  u32 column = 0;              // its first column in the output of the product that it is added to
  bool down = false;           // reads the gated unit's output; otherwise the experts' input
  double alpha = 0, scale = 1;
  std::string_view in_file;  // joined: path in the file, after the layer's

  bool operator==(const ExpertAdapter&) const = default;
};
struct ExpertAdapters {
  AdapterForm form = AdapterForm::none;
  std::array<ExpertAdapter, 3> of;
  u32 count = 0;

  const ExpertAdapter* begin() const { return of.data(); }
  const ExpertAdapter* end() const { return of.data() + count; }
  bool operator==(const ExpertAdapters&) const = default;
};

// A layer's router as PEFT may name it: a parameter in transformers 5, or a module where transformers 4 had
// a linear layer.
struct RouterNames {
  std::string parameter;  // "model.layers.0.mlp.gate.weight"
  std::string module;     // "model.layers.0.block_sparse_moe.gate"; empty: not a module
};
RouterNames router_names(const ModelConfig&, u32 layer);

// Adapters of a layer's experts and router. All names are constants.
struct LayerAdapters {
  ExpertAdapters experts;
  std::string_view router;  // its path after the layer's, as the adapter's file has it; empty: no adapter

  bool any() const { return experts.count != 0 || !router.empty(); }
  bool operator==(const LayerAdapters&) const = default;
};
// RETURNS: the adapters of each layer; empty without LoRA or without experts.
std::vector<LayerAdapters> layer_adapters(const ModelConfig&, const LoraConfig&);

}  // namespace tidepool
