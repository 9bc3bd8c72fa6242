#include "trainer/rest_staging.h"

#include <algorithm>

namespace tidepool {
namespace {

struct Range {
  u64 begin = 0, end = 0;
};

std::vector<Range> taken_at_rest(const Plan& plan, Tier tier) {
  std::vector<Range> out;
  for (const Frame& home : plan.homes)
    if (home.bytes.value > 0 && home.tier == tier) out.push_back({home.offset, home.end()});
  for (const Segment& segment : plan.segments)
    for (const Operand& o : segment.operands)
      if (o.frame.tier == tier && plan.chunk(o.first).kind == Kind::scalars)
        out.push_back({o.frame.offset, o.frame.end()});
  std::sort(out.begin(), out.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return out;
}

}  // namespace

std::vector<std::span<std::byte>> free_at_rest(const Plan& plan, Tier tier, std::span<std::byte> arena, u64 end_bytes) {
  std::vector<std::span<std::byte>> out;
  u64 at = 0;
  const auto add = [&](u64 end) {
    const u64 begin = round_up(at, frame_alignment), stop = std::min(end, end_bytes);
    if (stop > begin) out.push_back(arena.subspan(begin, stop - begin));
  };
  for (const Range& taken : taken_at_rest(plan, tier)) {
    add(taken.begin);
    at = std::max(at, taken.end);
  }
  add(end_bytes);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return out;
}

std::span<std::byte> take_from(std::vector<std::span<std::byte>>& ranges, u64 bytes) {
  const u64 pages = round_up(bytes, frame_alignment);
  for (std::span<std::byte>& range : ranges) {
    if (bytes == 0 || range.size() < pages) continue;
    const std::span<std::byte> taken = range.first(pages);
    range = range.subspan(pages);
    return taken;
  }
  return {};
}

}  // namespace tidepool
