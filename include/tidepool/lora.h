// Low-rank adapters beside a frozen model: Hu et al., arXiv:2106.09685. Names and defaults as in PEFT's
// LoraConfig.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// A linear layer w of `target_modules` computes x w + scale (dropout(x) A^T) B^T, where scale is lora_alpha /
// r, or lora_alpha / sqrt(r) with rsLoRA (Kalajdzievski, arXiv:2312.03732); A [r, in] and B [out, r] are
// trained, and nothing else is.
struct LoraConfig {
  u32 r = 0;  // 0: no adapters, and everything is trained
  double alpha = 8;
  std::vector<std::string>
      target_modules;   // last parts of modules' names; empty, or all-linear alone: all of them
  double dropout = 0;   // of x, as adapters see it; each draws its own
  bool rslora = false;  // use_rslora
  std::string adapter;  // directory of a PEFT adapter whose A and B a new run starts from; empty: random A
  std::string base;     // directory of the frozen model, as adapter_config.json names it

  bool on() const { return r > 0; }
  double scale() const { return rslora ? alpha / std::sqrt(double(r)) : alpha / r; }
  bool operator==(const LoraConfig&) const = default;
};

inline constexpr u32 lora_rank_max = 1024;

}  // namespace tidepool
