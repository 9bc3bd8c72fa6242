// LoraConfig describes low-rank adapters beside a frozen model: Hu et al., arXiv:2106.09685. Names and
// defaults are those of PEFT's LoraConfig.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Adapter of one linear layer, with a rank and alpha of its own.
struct ModuleAdapter {
  u32 layer = 0;
  std::string module;  // "self_attn.q_proj"
  u32 r = 0;
  double alpha = 0;

  bool operator==(const ModuleAdapter&) const = default;
};

// A linear layer w of `target_modules` computes x w + scale (dropout(x) A^T) B^T. scale is lora_alpha / r, or
// with rsLoRA lora_alpha / sqrt(r) (Kalajdzievski, arXiv:2312.03732). Only A [r, in] and B [out, r] are
// trained.
struct LoraConfig {
  u32 r = 0;  // 0: no adapters, and everything is trained
  double alpha = 8;
  // Ends of modules' names, such as q_proj or shared_experts.up_proj. all-linear alone, or empty with no
  // target_parameters: all linear layers but those of experts and routers.
  std::vector<std::string> target_modules;
  // Ends of parameters' names that transformers 5 has, such as mlp.experts.gate_up_proj: the matrices of all
  // experts of a layer in one adapter, with rank r for each expert; or mlp.gate.weight, a router.
  std::vector<std::string> target_parameters;
  // Rank and alpha for the experts' parameters among them; 0: r and alpha. The joint ones are for
  // gate_up_proj, in adapters that have another rank there; 0: expert_r and expert_alpha.
  u32 expert_r = 0, joint_r = 0;
  double expert_alpha = 0, joint_alpha = 0;
  double dropout = 0;   // on the x that adapters read; each adapter draws its own
  bool rslora = false;  // use_rslora
  std::string adapter;  // directory of a PEFT adapter whose A and B a new run starts from; empty: random A
  // Not a key. All adapters of linear layers, in order of layer and module, if those of `adapter` differ
  // between layers, or in rank or alpha; otherwise empty, and target_modules says all.
  std::vector<ModuleAdapter> modules;
  std::string base;  // directory of the frozen model, as adapter_config.json names it

  bool on() const { return r > 0; }
  // True if target_modules stands for all linear layers.
  bool all_linear() const {
    if (target_modules.empty()) return target_parameters.empty();
    return target_modules.size() == 1 && target_modules[0] == "all-linear";
  }
  // RETURNS: the module's own adapter; null: it has none, or `modules` is empty.
  const ModuleAdapter* find(u32 layer, std::string_view module) const {
    const auto key = [](const ModuleAdapter& m) { return std::tuple(m.layer, std::string_view(m.module)); };
    const auto at = std::ranges::lower_bound(modules, std::tuple(layer, module), {}, key);
    return at != modules.end() && at->layer == layer && at->module == module ? &*at : nullptr;
  }
  u32 rank_max() const {
    u32 most = modules.empty() ? r : 0;
    for (const ModuleAdapter& m : modules) most = std::max(most, m.r);
    return most;
  }
  double scale() const { return scale_of(r, alpha); }
  double scale_of(u32 rank, double numerator) const {
    return rslora ? numerator / std::sqrt(double(rank)) : numerator / rank;
  }
  bool operator==(const LoraConfig&) const = default;
};

inline constexpr u32 lora_rank_max = 1024;

}  // namespace tidepool
