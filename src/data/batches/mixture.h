// Mixture decides which source the i-th sequence comes from. Each source has its share at every length.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace tidepool {

class Mixture {
 public:
  // Length of the repeating pattern. Shares are rounded to whole places of it.
  static constexpr u32 turn = 4096;
  // REQUIRES: at least one weight, all above 0, at most 256.
  explicit Mixture(std::span<const double> weights);

  struct Draw {
    u32 source = 0;
    u64 index = 0;  // sequences drawn from this source before
  };
  Draw operator()(u64 i) const;
  u32 share(u32 source) const { return counts_[source]; }  // places per turn

 private:
  std::vector<u8> sources_;  // by place of the turn
  std::vector<u16> before_;  // places of the same source earlier in the turn
  std::vector<u32> counts_;
};

}  // namespace tidepool
