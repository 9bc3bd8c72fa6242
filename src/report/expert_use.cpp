#include "report/expert_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/units.h"

namespace tidepool {

std::string expert_use_text(const ExpertUse& use) {
  const std::vector<double> uneven = layer_imbalance(std::span(use.tokens), use.experts);
  if (uneven.empty() || use.each_step.empty()) return {};
  const auto most = std::ranges::max_element(uneven);
  const u32 layer = use.layers[static_cast<std::size_t>(most - uneven.begin())];
  const std::string dropped =
      use.dropped == 0 ? "no token dropped"
                       : fmt::format("{} choices dropped", count_text(static_cast<double>(use.dropped)));
  return fmt::format(
      "{} experts, {} per token: {}; busiest {:.3g} times the even load (layer {}); router entropy {:.3g} of "
      "{:.3g}",
      use.experts, use.chosen, dropped, *most, layer, use.each_step.back().entropy, std::log(use.experts));
}

}  // namespace tidepool
