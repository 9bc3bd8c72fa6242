// LoraConfig describes low-rank adapters beside a frozen model: Hu et al., arXiv:2106.09685. Names and
// defaults are those of PEFT's LoraConfig.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

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
  std::string base;     // directory of the frozen model, as adapter_config.json names it

  bool on() const { return r > 0; }
  // True if target_modules stands for all linear layers.
  bool all_linear() const {
    if (target_modules.empty()) return target_parameters.empty();
    return target_modules.size() == 1 && target_modules[0] == "all-linear";
  }
  double scale() const { return scale_of(r, alpha); }
  double scale_of(u32 rank, double numerator) const {
    return rslora ? numerator / std::sqrt(double(rank)) : numerator / rank;
  }
  bool operator==(const LoraConfig&) const = default;
};

inline constexpr u32 lora_rank_max = 1024;

}  // namespace tidepool
