#include "planner/device_stays.h"

#include <algorithm>

namespace tidepool {
namespace {

// A byte that the host holds all around saves a read and a write.
constexpr u64 saved_by_a_byte = 2 * disk_weight;

}  // namespace

DeviceStays::Worth& DeviceStays::Worth::operator+=(const Worth& other) {
  saved += other.saved, saved_disk += other.saved_disk, relief += other.relief;
  return *this;
}

u64 DeviceStays::Worth::total(Bytes shortage) const {
  if (relief <= shortage) return saved + saved_disk;
  const double part = static_cast<double>(shortage.value) / static_cast<double>(relief.value);
  return saved + static_cast<u64>(static_cast<double>(saved_disk) * part);
}

DeviceStays::DeviceStays(const Layout& layout, const Program& program, const HostShortage& shortage,
                         const std::vector<DeviceChain>& chains)
    : layout_(layout), program_(program), shortage_(shortage), chains_(chains) {}

// `disk_bytes`: moves on the disk that the stay saves at most. It saves as much as other content could that
// takes its room in the host, and this room is worth something only where the host is short.
void DeviceStays::add(const Choice& choice, const Stay& stay, u64 disk_bytes) {
  const double room = shortage_.part_of(stay.span) * static_cast<double>(saved_by_a_byte * stay.bytes.value);
  const u64 disk = std::min(disk_weight * disk_bytes, static_cast<u64>(room));
  const Span& span = stay.span;
  const i32 worst = span.begin >= 0 || shortage_.worst <= span.end ? shortage_.worst
                                                                   : shortage_.worst - program_.positions();
  const bool relieves = disk > 0 && worst >= span.begin && worst <= span.end;
  candidates_.push_back({.choice = choice,
                         .stay = stay,
                         .worth = {.saved = relieves ? stay.saved_bytes : stay.saved_bytes + disk,
                                   .saved_disk = relieves ? disk : 0,
                                   .relief = relieves ? stay.bytes : Bytes{0}}});
}

// Each replica fetches only its shard of a window.
void DeviceStays::add_touch(u32 c, u32 t) {
  const DeviceChain& chain = chains_[c];
  const Bytes bytes = most_held(layout_, chain.first, chain.count, chain.spread);
  const u64 moved = chain.spread == Spread::copy ? bytes.value / layout_.replicas : bytes.value;
  const u32 maker = chain.touches[t].made_by;
  const bool saves_departure = chain.produced_here && !chain.touches[maker].is_read_elsewhere;
  const u64 saved = moved * (saves_departure ? 2 : 1);
  add({.chain = c, .touch = t},
      {.span = chain.gap_before(t), .bytes = bytes, .saved_bytes = saved, .from_rest = chain.from_rest},
      saved);
}

// It moves down later, but once as before: only the disk is spared.
void DeviceStays::add_wait(u32 c) {
  const DeviceChain& chain = chains_[c];
  const i32 turn = program_.positions();
  Span span = chain.gap_until_left();
  if (span.end >= turn) span = {span.begin - turn, span.end - turn};
  const Bytes bytes = most_held(layout_, chain.first, chain.count, chain.spread);
  add({.chain = c}, {.span = span, .bytes = bytes, .from_rest = FromRest::absent}, 2 * bytes.value);
}

// A window at home saves every copy; and the reads and writes, if the state would rest on disk.
DeviceStays::Worth DeviceStays::worth_of_home(const Layout& layout, const Program& program, u32 w) {
  const WindowChunks& chunks = layout.windows[w];
  const u64 param = layout.shard_bytes(chunks.param).value;
  const Bytes bytes = bytes_at_home(layout, w);
  u64 visits = 0;  // of directions, on the device that has most
  for (u32 replica = 0; replica < layout.replicas; ++replica) {
    u64 here = 0;
    for (u32 cut = chunks.shard_begin(replica); cut < chunks.shard_begin(replica + 1); ++cut)
      if (program.streams(w, cut)) here += layout.chunk(layout.gradient(w, cut)).bytes.value;
    visits = std::max(visits, here);
  }
  return {.saved = 2 * param + gradient_bytes(layout, w).value + 2 * visits,
          .saved_disk = saved_by_a_byte * bytes.value,
          .relief = bytes};
}

void DeviceStays::add_home(u32 w) {
  const Worth worth = worth_of_home(layout_, program_, w);
  candidates_.push_back({.choice = {.window = w},
                         .stay = {.span = {0, program_.positions() - 1},
                                  .bytes = bytes_at_home(layout_, w),
                                  .saved_bytes = worth.saved + 2 * state_bytes(layout_, w).value},
                         .worth = worth});
}

std::vector<u32> DeviceStays::choose_with(const std::vector<bool>& is_short, Bytes room,
                                          Profile& used) const {
  std::vector<Stay> stays;
  std::vector<u32> index;
  for (u32 i = 0; i < candidates_.size(); ++i) {
    Stay stay = candidates_[i].stay;
    if (is_short[i]) stay.saved_bytes = candidates_[i].worth.saved + candidates_[i].worth.saved_disk;
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
  const Profile before = used;
  std::vector<u32> chosen = choose_with(is_short, room, used);
  Bytes relief{};
  for (const u32 i : chosen) {
    is_short[i] = candidates_[i].worth.relief.value == 0 || relief < shortage;
    relief += candidates_[i].worth.relief;
  }
  if (shortage.value > 0 && relief > shortage) {
    std::vector<bool> kept(candidates_.size(), false);
    for (u32 i = 0; i < kept.size(); ++i) kept[i] = candidates_[i].worth.relief.value == 0;
    for (const u32 i : chosen) kept[i] = is_short[i];
    used = before;
    chosen = choose_with(kept, room, used);
  }
  Chosen out;
  for (const u32 i : chosen) {
    out.all.push_back(candidates_[i].choice);
    out.worth += candidates_[i].worth;
  }
  return out;
}

}  // namespace tidepool
