// Which of several sources the i-th sequence comes from, so that each has its share at every length.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace tidepool {

class Mixture {
 public:
  // Shares are rounded to whole parts of a turn of `turn` places.
  static constexpr u32 turn = 4096;
  // REQUIRES: at least one weight, all above 0, at most 256.
  explicit Mixture(std::span<const double> weights);

  struct Draw {
    u32 source = 0;
    u64 index = 0;  // how many were drawn from this source before
  };
  Draw operator()(u64 i) const;
  u32 share(u32 source) const { return counts_[source]; }  // of a turn

 private:
  std::vector<u8> sources_;  // by place of a turn
  std::vector<u16> before_;  // of the same source, earlier in the turn
  std::vector<u32> counts_;
};

}  // namespace tidepool
