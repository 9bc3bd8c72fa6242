#include "fit/rest_staging.h"

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

struct RestRange {
  Tier tier{};
  u64 begin = 0, end = 0;
  u64 bytes() const { return end - begin; }
};

std::vector<RestRange> taken_at_rest(const Plan& plan, Tier tier) {
  std::vector<RestRange> out;
  for (const Frame& home : plan.homes)
    if (home.bytes.value > 0 && home.tier == tier) out.push_back({tier, home.offset, home.end()});
  for (const Segment& segment : plan.segments)
    for (const Operand& o : segment.operands)
      if (o.frame.tier == tier && plan.chunk(o.first).kind == Kind::scalars)
        out.push_back({tier, o.frame.offset, o.frame.end()});
  std::sort(out.begin(), out.end(), [](const RestRange& a, const RestRange& b) { return a.begin < b.begin; });
  return out;
}

// Gaps between the ranges taken at rest, in whole pages, up to `end_bytes`; largest first.
std::vector<RestRange> gaps_at_rest(const Plan& plan, Tier tier, u64 end_bytes) {
  std::vector<RestRange> out;
  u64 at = 0;
  const auto add = [&](u64 end) {
    const u64 begin = round_up(at, frame_alignment), stop = std::min(end, end_bytes);
    if (stop > begin) out.push_back({tier, begin, stop});
  };
  for (const RestRange& taken : taken_at_rest(plan, tier)) {
    add(taken.begin);
    at = std::max(at, taken.end);
  }
  add(end_bytes);
  std::stable_sort(out.begin(), out.end(),
                   [](const RestRange& a, const RestRange& b) { return a.bytes() > b.bytes(); });
  return out;
}

}  // namespace

std::array<Bytes, 2> staging_bytes(const Plan& plan, DeviceMemory device_memory) {
  std::array<Bytes, 2> most{};
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    const Tier home = plan.homes[id].tier;
    const bool reachable =
        home == Tier::host || (home == Tier::device && device_memory == DeviceMemory::of_host);
    // Node 0 reaches the homes of several nodes through staging.
    if (!is_persistent(chunk) || (reachable && plan.nodes == 1)) continue;
    Bytes& bytes = most[staging_slot(plan.state_slots, chunk.kind)];
    bytes = std::max(bytes, chunk.bytes);
  }
  return most;
}

std::vector<StagingPlace> place_staging(const Plan& plan, std::span<const Bytes> needed, Bytes host_reserved,
                                        DeviceMemory device_memory) {
  std::vector<RestRange> gaps;
  for (const Tier tier : {Tier::host, Tier::device}) {
    if (tier == Tier::device && device_memory == DeviceMemory::of_gpus) continue;
    const u64 arena = round_up(plan.tiers[static_cast<u32>(tier)].planned_peak.value, frame_alignment);
    const u64 reserved = tier == Tier::host ? host_reserved.value : 0;
    for (const RestRange& gap : gaps_at_rest(plan, tier, arena - std::min(arena, reserved)))
      gaps.push_back(gap);
  }
  std::vector<StagingPlace> places(needed.size());
  for (u32 i = 0; i < places.size(); ++i) {
    places[i].bytes = needed[i];
    const u64 pages = round_up(needed[i].value, frame_alignment);
    const auto gap =
        std::find_if(gaps.begin(), gaps.end(), [&](const RestRange& g) { return g.bytes() >= pages; });
    if (gap == gaps.end()) continue;
    places[i].tier = gap->tier;
    places[i].offset = gap->begin;
    gap->begin += pages;
  }
  return places;
}

}  // namespace tidepool
