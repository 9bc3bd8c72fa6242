#include "planner/device_stays.h"

namespace tidepool {
namespace {

// A byte of the disk costs as much time as this many bytes of a device's link: 25 GB/s of PCIe against 6 GB/s
// of a good drive.
constexpr u64 disk_weight = 4;

}  // namespace

DeviceStays::DeviceStays(const Layout& layout, const Program& program, const std::vector<DeviceChain>& chains)
    : layout_(layout), program_(program), chains_(chains) {}

// Each replica fetches only its shard of a window.
void DeviceStays::add_touch(u32 c, u32 t) {
  const DeviceChain& chain = chains_[c];
  const Bytes bytes = layout_.bytes(chain.first, chain.count);
  const u64 moved = chain.spread == Spread::copy ? bytes.value / layout_.replicas : bytes.value;
  const u32 maker = chain.touches[t].made_by;
  const bool saves_departure = chain.produced_here && !chain.touches[maker].is_read_elsewhere;
  const u64 saved = moved * (saves_departure ? 2 : 1);
  candidates_.push_back({.choice = {.chain = c, .touch = t},
                         .stay = {.span = chain.gap_before(t),
                                  .bytes = bytes,
                                  .saved_bytes = saved,
                                  .from_rest = chain.from_rest},
                         .saved_if_short = saved});
}

// It moves down later, but once as before: only the disk is spared.
void DeviceStays::add_wait(u32 c) {
  const DeviceChain& chain = chains_[c];
  Span span = chain.gap_until_left();
  if (span.end >= program_.positions())
    span = {span.begin - program_.positions(), span.end - program_.positions()};
  const Bytes bytes = layout_.bytes(chain.first, chain.count);
  candidates_.push_back({.choice = {.chain = c},
                         .stay = {.span = span, .bytes = bytes, .from_rest = FromRest::absent},
                         .saved_if_short = worth(bytes),
                         .relief = bytes});
}

DeviceStays::Chosen DeviceStays::home(const Layout& layout, u32 w) {
  const WindowChunks& chunks = layout.windows[w];
  const u64 param = layout.bytes(chunks.param, chunks.shard_cuts).value;
  return {.all = {{.window = w}},
          .saved = 2 * param + gradient_bytes(layout, w).value,
          .relief = bytes_at_home(layout, w)};
}

u64 DeviceStays::worth(Bytes relief) { return 2 * disk_weight * relief.value; }

// A window at home saves every copy; and the reads and writes, if the state would rest on disk.
void DeviceStays::add_home(u32 w) {
  const Chosen saves = home(layout_, w);
  candidates_.push_back({.choice = {.window = w},
                         .stay = {.span = {0, program_.positions() - 1},
                                  .bytes = bytes_at_home(layout_, w),
                                  .saved_bytes = saves.saved + 2 * state_bytes(layout_, w).value},
                         .saved_if_short = saves.saved + worth(saves.relief),
                         .relief = saves.relief});
}

std::vector<u32> DeviceStays::choose_with(const std::vector<bool>& is_short, Bytes room,
                                          Profile& used) const {
  std::vector<Stay> stays;
  std::vector<u32> index;
  for (u32 i = 0; i < candidates_.size(); ++i) {
    Stay stay = candidates_[i].stay;
    if (is_short[i]) stay.saved_bytes = candidates_[i].saved_if_short;
    if (stay.saved_bytes == 0) continue;
    stays.push_back(stay);
    index.push_back(i);
  }
  std::vector<u32> chosen;
  for (const u32 i : choose_stays(stays, room, used)) chosen.push_back(index[i]);
  return chosen;
}

// Chooses first as if the host could never hold enough. What then relieves it of more than it is short of is
// valued without the disk, and all is chosen again. Candidates that come first keep their value: gradients of
// the first blocks wait for the shortest time.
DeviceStays::Chosen DeviceStays::choose(Bytes room, Bytes shortage, Profile& used) const {
  std::vector<bool> is_short(candidates_.size(), shortage.value > 0);
  Profile before = used;
  std::vector<u32> chosen = choose_with(is_short, room, used);
  Bytes relief{};
  for (const u32 i : chosen) {
    is_short[i] = relief < shortage;
    relief += candidates_[i].relief;
  }
  if (shortage.value > 0 && relief > shortage) {
    std::vector<bool> kept(candidates_.size(), false);
    for (const u32 i : chosen) kept[i] = is_short[i];
    used = std::move(before);
    chosen = choose_with(kept, room, used);
  }
  Chosen out;
  for (const u32 i : chosen) {
    out.all.push_back(candidates_[i].choice);
    out.saved += candidates_[i].saved_if_short - worth(candidates_[i].relief);
    out.relief += candidates_[i].relief;
  }
  return out;
}

}  // namespace tidepool
