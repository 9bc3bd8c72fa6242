#include "session/state_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tidepool {

StateStore::StateStore(const Plan& plan, const ModelGraph& graph, StateAtRest& homes, const Staging& staging)
    : plan_(plan), homes_(homes), written_(plan.chunks.size(), false) {
  for (u32 i = 0; i < slots_.size(); ++i) {
    CHECK(staging[i].size() <= staged_max, staging[i].size());
    for (const std::span<std::byte> memory : staging[i]) slots_[i].staged.push_back({.memory = memory});
  }
  first_.resize(graph.windows.size());
  cuts_.resize(graph.windows.size(), 0);
  for (auto& of_window : first_) of_window.fill(ChunkId{none});
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (!is_persistent(chunk.kind)) continue;
    if (chunk.kind == Kind::param) ++cuts_[chunk.window];
    if (chunk.cut == 0) first_[chunk.window][static_cast<u32>(chunk.kind)] = ChunkId{id};
  }
}

ChunkId StateStore::first_chunk(u32 window, Kind kind) const {
  return first_[window][static_cast<u32>(kind)];
}

StateStore::Piece StateStore::piece_at(u32 window, Kind kind, u64 element, u64 bytes_left) const {
  // Cuts of a kind lie side by side; those that have nothing of it are empty.
  const ChunkId first = first_chunk(window, kind);
  const auto chunks = std::span(plan_.chunks).subspan(index(first), cuts_[window]);
  const auto after = std::ranges::upper_bound(chunks, element, {}, &Chunk::element_begin);
  const ChunkId id{index(first) + static_cast<u32>(after - chunks.begin()) - 1};
  const Chunk& chunk = plan_.chunk(id);
  CHECK(chunk.window == window && chunk.kind == kind && is_persistent(chunk), window, element);
  const u64 offset = plan_.state_slots.bytes(kind, element - chunk.element_begin);
  return {id, offset, std::min(bytes_left, plan_.state_slots.bytes(kind, chunk.elements) - offset)};
}

std::span<std::byte> StateStore::content(const Slot& slot) const {
  return slot.memory.first(plan_.chunk(slot.chunk).bytes.value);
}

Result<bool> StateStore::put_into(Slot& slot, ChunkId id) {
  const std::span<std::byte> home = homes_.home_memory(id);
  slot.chunk = id;
  slot.memory = home;
  if (home.empty()) {
    CHECK(!slot.staged.empty(), index(id));
    Staged& next = slot.staged[slot.turn++ % slot.staged.size()];
    TRY(arrived(next));
    slot.memory = next.memory;
  }
  CHECK(slot.memory.size() >= plan_.chunk(id).bytes.value, index(id), slot.memory.size());
  return home.empty();
}

Result<void> StateStore::arrived(Staged& staged) {
  if (staged.on_its_way == ChunkId{none}) return {};
  return homes_.end_write_home(std::exchange(staged.on_its_way, ChunkId{none}));
}

void StateStore::fill_zeros(Slot& slot, u64 up_to) {
  CHECK(slot.filled <= up_to, index(slot.chunk), slot.filled, up_to);
  const std::span<std::byte> gap = content(slot).subspan(slot.filled, up_to - slot.filled);
  std::fill(gap.begin(), gap.end(), std::byte{0});
}

Result<void> StateStore::flush(Slot& slot) {
  if (slot.chunk == ChunkId{none} || !written_[index(slot.chunk)]) return {};
  fill_zeros(slot, content(slot).size());
  if (!std::exchange(slot.dirty, false)) return {};
  for (Staged& staged : slot.staged)
    if (staged.memory.data() == slot.memory.data()) staged.on_its_way = slot.chunk;
  return homes_.begin_write_home(slot.chunk, content(slot));
}

void StateStore::keep_trained() {
  for (u32 id = 0; id < plan_.chunks.size(); ++id)
    if (plan_.is_committed(ChunkId{id})) written_[id] = true;
}

void StateStore::invalidate() {
  for (Slot& slot : slots_) slot.chunk = ChunkId{none};
}

Result<void> StateStore::read(u32 window, Kind kind, u64 element, std::span<std::byte> out) {
  Slot& slot = slot_of(kind);
  while (!out.empty()) {
    const Piece piece = piece_at(window, kind, element, out.size());
    if (slot.chunk != piece.chunk) {
      TRY_ASSIGN(const bool away, put_into(slot, piece.chunk));
      if (away) TRY(homes_.read_home(piece.chunk, content(slot)));
    }
    std::memcpy(out.data(), slot.memory.data() + piece.offset, piece.bytes);
    out = out.subspan(piece.bytes);
    element += plan_.state_slots.elements(kind, piece.bytes);
  }
  return {};
}

Result<void> StateStore::write(u32 window, Kind kind, u64 element, std::span<const std::byte> bytes) {
  if (first_chunk(window, kind) == ChunkId{none}) return {};  // this plan has no such chunks
  Slot& slot = slot_of(kind);
  while (!bytes.empty()) {
    const Piece piece = piece_at(window, kind, element, bytes.size());
    if (slot.chunk != piece.chunk) {
      TRY(flush(slot));
      CHECK(!written_[index(piece.chunk)], index(piece.chunk));
      TRY_ASSIGN(slot.dirty, put_into(slot, piece.chunk));
      written_[index(piece.chunk)] = true;
      slot.filled = 0;
    }
    fill_zeros(slot, piece.offset);
    std::memcpy(slot.memory.data() + piece.offset, bytes.data(), piece.bytes);
    slot.filled = piece.offset + piece.bytes;
    bytes = bytes.subspan(piece.bytes);
    element += plan_.state_slots.elements(kind, piece.bytes);
  }
  return {};
}

Result<void> StateStore::finish() {
  for (Slot& slot : slots_) {
    TRY(flush(slot));
    for (Staged& staged : slot.staged) TRY(arrived(staged));
  }
  invalidate();
  for (u32 id = 0; id < plan_.chunks.size(); ++id)
    if (is_persistent(plan_.chunks[id]) && !written_[id]) TRY(homes_.clear_home(ChunkId{id}));
  written_.assign(written_.size(), false);
  return {};
}

}  // namespace tidepool
