#include "executor/sim/tagged_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/op_text.h"

namespace tidepool {
namespace {

std::vector<u64> versions_added(const Plan& plan, const Segment& segment) {
  std::vector<u64> out(plan.chunks.size());
  for (const Operand& o : segment.operands) {
    for (u32 i = 0; i < o.count; ++i) {
      u64& added = out[index(o.first) + i];
      added = std::max<u64>(added, version_left(o));
    }
  }
  return out;
}

}  // namespace

TaggedMemory::TaggedMemory(const Plan& plan) : plan_(plan) {
  for (u32 i = 0; i < segment_count; ++i) writes_[i] = versions_added(plan, plan.segments[i]);
  runs_[0].base.assign(plan.chunks.size(), 0);
  runs_[1].base.assign(plan.chunks.size(), 0);
  u16 devices = 1;
  for (const Segment& segment : plan.segments) {
    for (const Operand& o : segment.operands) {
      if (o.frame.tier == Tier::device) devices = std::max<u16>(devices, o.frame.device + 1);
    }
  }
  devices_.resize(devices);
  for (u32 i = 0; i < plan.homes.size(); ++i) {
    const Frame& home = plan.homes[i];
    if (home.bytes.value > 0) map(home).set(home.offset, home.end(), {.chunk = ChunkId{i}});
  }
}

TagMap& TaggedMemory::map(const Frame& frame) {
  if (frame.tier == Tier::device) return devices_[frame.device];
  return frame.tier == Tier::host ? host_ : disk_;
}

// Run of an issue. A run's ops are numbered from its first sequence, so a new first sequence is a new run.
const TaggedMemory::Run& TaggedMemory::run_of(const Issue& issue) {
  const u64 first = issue.sequence - index(issue.op);
  for (const Run& run : runs_) {
    if (run.first_sequence == first) return run;
  }
  Run& fresh = runs_[1];
  const Run& last = runs_[0];
  fresh.base = last.base;
  if (last.first_sequence != ~u64{0}) {
    const std::vector<u64>& writes = writes_[static_cast<u32>(last.kind)];
    for (u64 i = 0; i < writes.size(); ++i) fresh.base[i] += writes[i];
  }
  fresh.first_sequence = first;
  fresh.kind = issue.segment->kind;
  std::swap(runs_[0], runs_[1]);
  return runs_[0];
}

template <class Fn>
void TaggedMemory::each_chunk(const Operand& o, Fn&& fn) const {
  u64 begin = o.frame.offset;
  for (u32 i = 0; i < o.count; ++i) {
    const ChunkId id{index(o.first) + i};
    const u64 end = begin + plan_.chunk(id).bytes.value;
    fn(Place{id, begin, end});
    begin = end;
  }
  CHECK(begin == o.frame.end(), begin, o.frame.end(), index(o.first), o.count);
}

std::string TaggedMemory::check_one(const Operand& o, const Place& place, const Tag& expected) const {
  const TagMap& map = const_cast<TaggedMemory*>(this)->map(o.frame);
  if (map.holds(place.begin, place.end, expected)) return {};
  const std::optional<Tag> held = map.at(place.begin);
  std::string holds = "nothing";
  if (held) {
    holds = fmt::format("{} version {}{}", describe(plan_, held->chunk), held->version,
                        held->writer == Tag::settled ? "" : " while an op is writing it");
  }
  return fmt::format("finds not {} version {} at {}+{} but {}", describe(plan_, place.chunk),
                     expected.version, name(o.frame.tier), place.begin, holds);
}

std::string TaggedMemory::check_reads(const Issue& issue, const Run& run, bool at_end) {
  std::string wrong;
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    if (!at_end && !reads(o.access)) continue;
    // While an op runs, the ranges that it writes carry its mark. At its end the mark must still be there: no
    // other op may have touched them.
    const u64 writer = at_end && writes(o.access) ? issue.sequence : Tag::settled;
    each_chunk(o, [&](const Place& place) {
      if (!wrong.empty()) return;
      wrong = check_one(o, place, {place.chunk, run.base[index(place.chunk)] + o.version, writer});
    });
  }
  return wrong;
}

std::string TaggedMemory::start(const Issue& issue) {
  const Run& run = run_of(issue);
  std::string wrong = check_reads(issue, run, false);
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    if (!writes(o.access)) continue;
    each_chunk(o, [&](const Place& place) {
      map(o.frame).set(place.begin, place.end,
                       {place.chunk, run.base[index(place.chunk)] + o.version, issue.sequence});
    });
  }
  return wrong;
}

std::string TaggedMemory::finish(const Issue& issue) {
  const Run& run = run_of(issue);
  std::string wrong = check_reads(issue, run, true);
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    if (!writes(o.access)) continue;
    each_chunk(o, [&](const Place& place) {
      map(o.frame).set(place.begin, place.end, {place.chunk, run.base[index(place.chunk)] + version_left(o)});
    });
  }
  return wrong;
}

}  // namespace tidepool
