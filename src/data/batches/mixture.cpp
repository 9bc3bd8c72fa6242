#include "data/batches/mixture.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace tidepool {

Mixture::Mixture(std::span<const double> weights) {
  CHECK(!weights.empty() && weights.size() <= 256, weights.size());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  // Every source gets at least one place, or it would never be used. Rounding leaves places over, or takes
  // too many: the sources with the most places gain or lose one place at a time, so none loses all.
  for (const double weight : weights) {
    CHECK(weight > 0, weight);
    counts_.push_back(std::max<u32>(1, static_cast<u32>(weight / sum * turn)));
  }
  const u32 taken = std::accumulate(counts_.begin(), counts_.end(), 0u);
  if (taken < turn) *std::ranges::max_element(counts_) += turn - taken;
  for (u32 over = taken; over > turn; --over) --*std::ranges::max_element(counts_);
  // Each place goes to the source that is furthest behind its share, so that no source waits longer than
  // necessary.
  std::vector<i64> credit(counts_.size(), 0);
  std::vector<u16> drawn(counts_.size(), 0);
  for (u32 place = 0; place < turn; ++place) {
    for (size_t s = 0; s < counts_.size(); ++s) credit[s] += counts_[s];
    const size_t next = static_cast<size_t>(std::ranges::max_element(credit) - credit.begin());
    credit[next] -= turn;
    sources_.push_back(static_cast<u8>(next));
    before_.push_back(drawn[next]++);
  }
}

Mixture::Draw Mixture::operator()(u64 i) const {
  const u64 place = i % turn;
  const u32 source = sources_[place];
  return {source, i / turn * counts_[source] + before_[place]};
}

}  // namespace tidepool
