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
  // Last parts of modules' names. Empty, or all-linear alone: all linear layers.
  std::vector<std::string> target_modules;
  double dropout = 0;   // on the x that adapters read; each adapter draws its own
  bool rslora = false;  // use_rslora
  std::string adapter;  // directory of a PEFT adapter whose A and B a new run starts from; empty: random A
  std::string base;     // directory of the frozen model, as adapter_config.json names it

  bool on() const { return r > 0; }
  double scale() const { return rslora ? alpha / std::sqrt(double(r)) : alpha / r; }
  bool operator==(const LoraConfig&) const = default;
};

inline constexpr u32 lora_rank_max = 1024;

}  // namespace tidepool
