#include "base/text/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tidepool {

namespace {
constexpr size_t longest_name = 64;  // longer "names" are not typing errors
}

u32 edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > longest_name || b.size() > longest_name) return ~0u;
  using Row = std::array<u32, longest_name + 1>;
  Row before{}, last{}, now{};  // rows i - 2, i - 1 and i of the table of the edit distance
  for (u32 j = 0; j <= b.size(); ++j) last[j] = j;
  for (u32 i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (u32 j = 1; j <= b.size(); ++j) {
      const u32 replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  // One edit in short words, one more per four letters: "blah" is not close to "plan".
  u32 best_distance = std::max<u32>(static_cast<u32>(name.size() + 2) / 4, 1) + 1;
  for (std::string_view candidate : known) {
    const u32 distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view best = nearest(name, known);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace tidepool
