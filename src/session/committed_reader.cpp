#include "session/committed_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

#include "base/check.h"
#include "base/open_file.h"
#include "fit/rest_staging.h"
#include "kernels/checksum/checksum.h"
#include "kernels/update/slot_formats.h"

namespace tidepool {
namespace {

constexpr u64 copied_at_once = mib;

}  // namespace

Result<std::unique_ptr<CommittedReader>> CommittedReader::open(FoundState given, StateTable given_table,
                                                               const ModelGraph& graph, CorePool& pool) {
  std::unique_ptr<CommittedReader> reader(
      new CommittedReader(std::move(given), std::move(given_table), graph, pool));
  const FoundState& found = reader->found_;
  const StateTable& table = reader->table_;
  RegularFile file = open_own_to_read(found.path, O_DIRECT);
  if (file.error_number == EINVAL) file = open_own_to_read(found.path);
  if (!file) return Error{ErrorKind::io, fmt::format("cannot open {}: {}", found.path, file.reason())};
  reader->fd_ = std::move(file.fd);
  CHECK(found.commit.chunks.size() == table.marks(), found.commit.chunks.size());
  std::map<std::string, Source> by_name;
  for (u32 row = 0; row < table.windows.size(); ++row)
    for (u64 t = 0; t < table.windows[row].tensors.size(); ++t) {
      Source& source = by_name[table.windows[row].tensors[t].name];
      source.row = row;
      for (u32 axis = 0; axis < slot_axis_count; ++axis)
        source.there[axis] = table.windows[row].tensor_range(static_cast<SlotAxis>(axis), t);
    }
  for (const Window& window : graph.windows) {
    std::vector<Source>& sources = reader->sources_.emplace_back();
    for (const Tensor& tensor : window.tensors) {
      if (!window.trainable) continue;
      sources.push_back(by_name.at(tensor.name));
      for (u32 axis = 0; axis < slot_axis_count; ++axis)
        sources.back().here[axis] = slot_range(window, static_cast<SlotAxis>(axis), tensor);
    }
  }
  u64 largest = 0;  // in bytes
  for (const StateTable::OfWindow& window : table.windows) {
    const auto hold = [&](Kind kind) {
      const std::vector<SlotRange> ranges = window.unit_ranges(table.state_slots.axis(kind));
      for (u64 unit = 0; unit < ranges.size(); ++unit) {
        u64 elements = ranges[unit].elements;
        if (table.state_slots.axis(kind) == SlotAxis::elements)
          elements = std::min(window.units[unit].cut_elements, elements);
        largest = std::max(largest, table.state_slots.chunk_bytes(kind, elements));
      }
    };
    hold(Kind::param);
    table.state_slots.each(hold);
  }
  for (Held& held : reader->held_)
    held.memory.reset(
        static_cast<std::byte*>(std::aligned_alloc(frame_alignment, round_up(largest, frame_alignment))));
  return reader;
}

Result<void> CommittedReader::read(u32 window, Kind kind, u64 element_begin, std::span<std::byte> out) {
  CHECK(!sources_[window].empty(), window);
  const u32 axis = static_cast<u32>(slots_.axis(kind));
  const auto after = std::ranges::upper_bound(sources_[window], element_begin, {},
                                              [&](const Source& s) { return s.here[axis].begin; });
  CHECK(after != sources_[window].begin(), window, element_begin);
  const Source& source = *std::prev(after);
  const u64 in_tensor = element_begin - source.here[axis].begin, begin = in_tensor + source.there[axis].begin;
  const StateTable::OfWindow& of = table_.windows[source.row];
  const u64 first = source.there[static_cast<u32>(SlotAxis::elements)].begin;
  const Kind there = kind_in_table(kind, of.rule_at(first));
  if (!slots_.is_optimizer_slot(kind) || table_.state_slots[there].format == slots_[kind].format)
    return read_table(of, there, begin, out);
  const SlotFormat format = table_.state_slots[there].format;
  // A block at the tensor's end has fewer elements.
  const u64 elements = std::min(slots_.elements(kind, out.size()), source.here[axis].elements - in_tensor);
  other_format_.resize(slot_bytes(format, elements));
  TRY(read_table(of, there, begin, other_format_));
  convert_slot(format, other_format_.data(), slots_[kind].format, out.data(), elements);
  return {};
}

// The slot of the rule that has the name in files.
Kind CommittedReader::kind_in_table(Kind kind, u8 rule) const {
  if (!slots_.is_optimizer_slot(kind)) return kind;
  std::optional<Kind> there;
  table_.state_slots.each_of_rule(rule, [&](Kind slot) {
    if (table_.state_slots[slot].file_prefix == slots_[kind].file_prefix) there = slot;
  });
  CHECK(there.has_value(), static_cast<u32>(kind), rule);
  return *there;
}

Result<void> CommittedReader::read_table(const StateTable::OfWindow& of, Kind kind, u64 element_begin,
                                         std::span<std::byte> out) {
  while (!out.empty()) {
    const StateTable::Cut cut = of.cut_at(element_begin, table_.state_slots, kind);
    Held& held = held_[staging_slot(table_.state_slots, kind)];
    TRY(hold(held, of, kind, cut));
    const u64 begin = table_.state_slots.bytes(kind, element_begin - cut.begin);
    const u64 bytes = std::min(out.size(), held.bytes - begin);
    std::memcpy(out.data(), held.memory.get() + begin, bytes);
    out = out.subspan(bytes);
    element_begin += table_.state_slots.elements(kind, bytes);
  }
  return {};
}

Result<void> CommittedReader::hold(Held& held, const StateTable::OfWindow& of, Kind kind,
                                   const StateTable::Cut& cut) {
  const StateTable::Place& place = of.places[static_cast<u32>(kind)];
  const u32 number = place.mark + cut.before.cuts;
  if (held.mark == number) return {};
  held.mark = none;
  const ChunkMark& mark = found_.commit.chunks[number];
  const StateSlots& slots = table_.state_slots;
  held.bytes = slots.bytes(kind, cut.elements);
  const std::span<std::byte> chunk(held.memory.get(), slots.chunk_bytes(kind, cut.elements));
  const std::span<std::byte> content = chunk.first(held.bytes);
  const u64 offset =
      found_.head.frames_begin() + place.offset + cut.before.bytes + mark.slot * table_.second_slot;
  for (u64 at = 0; at < chunk.size();) {
    const ssize_t got =
        ::pread(fd_.get(), chunk.data() + at, chunk.size() - at, static_cast<off_t>(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return Error{ErrorKind::io, fmt::format("cannot read {} at byte {}: {}", found_.path, offset + at,
                                              got == 0 ? "the file ends there" : errno_text(errno))};
    at += static_cast<u64>(got);
  }
  const u64 block = slots.bytes(kind, checksum_block_elements);
  hashes_.resize(div_up(content.size(), block));
  const ChunkId id{static_cast<u32>(place.first_chunk + cut.number)};
  const bool whole = mark.zeros ? all_zeros(content, pool_)
                                : chunk_checksum(content, block, checksum_seed(id, mark.version), hashes_,
                                                 pool_) == mark.sum;
  if (!whole)
    return Error{
        ErrorKind::corrupt_checkpoint,
        fmt::format("{}: {} of {} cut {} at byte {} is not as it was committed after step {}: check the disk "
                    "(dmesg, smartctl); to do without it, move this file away and resume: the message then "
                    "names the last "
                    "checkpoint, if there is one",
                    found_.path, slots.name(kind), of.name, cut.number, offset, found_.commit.step)};
  held.mark = number;
  return {};
}

Result<void> copy_state(const ModelGraph& graph, StateReader& from, StateWriter& to) {
  std::vector<std::byte> buffer(copied_at_once);
  const auto copy = [&](u32 window, Kind kind, u64 begin, u64 elements) -> Result<void> {
    const std::span<std::byte> bytes = std::span(buffer).first(graph.state_slots.bytes(kind, elements));
    TRY(from.read(window, kind, begin, bytes));
    return to.write(window, kind, begin, bytes);
  };
  using Kinds = std::vector<Kind>;
  std::vector<Kinds> together;
  graph.state_slots.each_optimizer_slot([&](Kind slot) { together.push_back({slot}); });
  together.push_back({Kind::param});
  if (graph.state_slots.has_master()) together.back().push_back(graph.state_slots.master());
  for (const Kinds& kinds : together)
    for (u32 w = 0; w < graph.windows.size(); ++w) {
      if (!graph.windows[w].trainable) continue;
      for (const Tensor& tensor : graph.windows[w].tensors) {
        constexpr u64 most = copied_at_once / 4;
        const SlotRange range = slot_range(graph.windows[w], graph.state_slots.axis(kinds[0]), tensor);
        for (u64 at = 0; at < range.elements; at += most)
          for (const Kind kind : kinds)
            if (graph.state_slots.has(tensor.rule, kind))
              TRY(copy(w, kind, range.begin + at, std::min(most, range.elements - at)));
      }
    }
  return to.finish();
}

}  // namespace tidepool
