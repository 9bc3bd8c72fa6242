// Updates a chunk in tiles of checksum_block_elements and hashes their new values on the way.
#include <algorithm>

#include "base/check.h"
#include "kernels/checksum/checksum.h"
#include "kernels/gradient/gradient_granule.h"
#include "kernels/update/update_tile.h"

namespace tidepool {
namespace {

// Neighbouring tiles per task. The processor prefetches each stream (AdamW has five), and data prefetched
// past the end of a task is lost: at 16 tiles (about 150 us) the loss is invisible, at 1 tile it costs a
// tenth of the speed. The last tasks are short, so that the workers end together.
constexpr u64 long_task_tiles = 16;
constexpr u64 short_task_tiles = 2;

struct Tasks {
  u64 tiles, long_tasks, count;

  Tasks(u64 all_tiles, u32 workers) : tiles(all_tiles) {
    const u64 left_for_the_end = u64{workers} * long_task_tiles;
    long_tasks = tiles > left_for_the_end ? (tiles - left_for_the_end) / long_task_tiles : 0;
    count = long_tasks + div_up(tiles - long_tasks * long_task_tiles, short_task_tiles);
  }
  u64 begin(u64 task) const {
    if (task <= long_tasks) return task * long_task_tiles;
    return std::min(tiles, long_tasks * long_task_tiles + (task - long_tasks) * short_task_tiles);
  }
};

// The arrays of a chunk, as tiles and checksums see them.
struct Arrays {
  std::array<UpdateArray, update_arrays_max> array;
  std::array<Kind, update_arrays_max> kind{};
  u32 count = 0;

  Arrays(const UpdateChunk& chunk, const StateSlots& slots, UpdatePart part) : array(chunk.arrays) {
    kind[count++] = part == UpdatePart::direction ? slots.gradient() : Kind::param;
    slots.each_of_part(0, part, [&](Kind slot) { kind[count++] = slot; });
  }
  bool hashed() const {
    return std::any_of(array.begin(), array.begin() + count,
                       [](const UpdateArray& a) { return !a.hashes.empty(); });
  }
};

struct Update {
  const UpdateChunk& chunk;
  const StateSlots& slots;
  const UpdatePart part;
  const UpdateTileFn rule;
  const UpdateScalars& scalars;
  const Arrays arrays;
  const bool hashed;

  UpdateTile tile_of(u64 begin, u64 end) const {
    UpdateTile tile{.elements = end - begin,
                    .grad = chunk.grad + begin * value_bytes(slots.precision()),
                    .chunk_begin = begin,
                    .segments = chunk.segments,
                    .rounding = chunk.rounding};
    for (u32 i = 0; i < arrays.count; ++i)
      tile.arrays[i] = arrays.array[i].data + slots.bytes(arrays.kind[i], begin);
    return tile;
  }

  // Skipped steps also write the kinds that every update makes anew: their bytes may have held a gradient.
  void leave_as_it_was(const UpdateTile& t) const {
    if (made_by_update(Kind::param, slots.precision()))
      round_to_half(reinterpret_cast<const float*>(t.arrays[1]), reinterpret_cast<u16*>(t.arrays[0]),
                    slots.precision(), t.elements);
  }

  void tile(u64 number) const {
    const u64 begin = number * checksum_block_elements;
    const u64 end = std::min(chunk.elements, begin + checksum_block_elements);
    UpdateTileHashes hashes;
    for (u32 i = 0; i < arrays.count && hashed; ++i)
      xxh3_begin(hashes.of[i], block_seed(arrays.array[i].seed, number));
    UpdateTile of = tile_of(begin, end);
    alignas(64) float values[checksum_block_elements];  // stays in L2
    if (chunk.source != nullptr && !scalars.skip) {
      chunk.source->read(begin, end, values);
      of.grad = reinterpret_cast<const std::byte*>(values);
    }
    const u32 made = scalars.skip ? 0 : rule(of, slots.precision(), scalars, hashed ? &hashes : nullptr);
    if (scalars.skip && part != UpdatePart::direction) leave_as_it_was(of);
    for (u32 i = 0; i < arrays.count; ++i) {
      const UpdateArray& array = arrays.array[i];
      if (array.hashes.empty()) continue;
      const u64 bytes = slots.bytes(arrays.kind[i], end - begin);
      array.hashes[number] = i < made ? xxh3_end(hashes.of[i], bytes)
                                      : block_checksum({of.arrays[i], bytes}, array.seed, number);
    }
  }
};

void check_chunk(const UpdateChunk& c, const Arrays& arrays) {
  const u64 tiles = div_up(c.elements, checksum_block_elements);
  for (u32 i = 0; i < update_arrays_max; ++i) {
    const UpdateArray& array = c.arrays[i];
    CHECK((array.data != nullptr) == (i < arrays.count), i, arrays.count);
    CHECK(array.hashes.empty() || (i < arrays.count && array.hashes.size() >= tiles), i, array.hashes.size());
    CHECK(array.hashes.empty() || arrays.kind[i] != Kind::grad, i);  // directions have no checksum
  }
  u64 covered = 0;
  for (const DecaySegment& segment : c.segments) {
    CHECK(segment.begin == covered && segment.end > covered, segment.begin, segment.end, covered);
    covered = segment.end;
  }
  CHECK(covered == c.elements, covered, c.elements);
}

}  // namespace

void update(const UpdateChunk& chunk, const StateSlots& slots, UpdatePart part, UpdateTileFn rule,
            const UpdateScalars& scalars, CorePool& pool) {
  const Arrays arrays(chunk, slots, part);
  check_chunk(chunk, arrays);
  const Update update{chunk, slots, part, rule, scalars, arrays, arrays.hashed()};
  const Tasks tasks(div_up(chunk.elements, checksum_block_elements), pool.workers());
  parallel_for(pool, Priority::high, static_cast<u32>(tasks.count), [&](u32 task, u32) {
    for (u64 tile = tasks.begin(task); tile < tasks.begin(task + 1); ++tile) update.tile(tile);
  });
}

}  // namespace tidepool
