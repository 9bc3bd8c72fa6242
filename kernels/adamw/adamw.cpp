// Updates a chunk in tiles of checksum_block_elements and hashes their new values on the way.
#include <algorithm>

#include "base/check.h"
#include "kernels/adamw/adamw_tile.h"
#include "kernels/checksum/checksum.h"
#include "kernels/gradient/gradient_granule.h"

namespace tidepool {
namespace {

// Neighbouring tiles per task. The processor prefetches each of the five streams, and data prefetched past
// the end of a task is lost: at 16 tiles (about 150 us) the loss is invisible, at 1 tile it costs a tenth of
// the speed. The last tasks are short, so that the workers end together.
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

// HashedKind is one kind of the chunk, as the checksums see it.
struct HashedKind {
  const std::byte* data;
  u64 element_bytes;
  std::span<u64> hashes;
  u64 seed;
  Xxh3Lanes AdamWTileHashes::*lanes;
};

struct HashedKinds {
  HashedKind kinds[4];
  u32 count;  // fp32 has no master, which is the last entry

  std::span<const HashedKind> all() const { return std::span(kinds).first(count); }
  bool wanted() const {
    return std::ranges::any_of(all(), [](const HashedKind& kind) { return !kind.hashes.empty(); });
  }
};

HashedKinds kinds_of(const AdamWChunk& c, Precision precision) {
  const u64 param_bytes = element_bytes(Kind::param, precision);
  const auto bytes = [](float* values) { return reinterpret_cast<const std::byte*>(values); };
  return {.kinds = {{c.param, param_bytes, c.param_hashes, c.param_seed, &AdamWTileHashes::param},
                    {bytes(c.momentum), 4, c.momentum_hashes, c.momentum_seed, &AdamWTileHashes::momentum},
                    {bytes(c.variance), 4, c.variance_hashes, c.variance_seed, &AdamWTileHashes::variance},
                    {c.master, adamw_master_bytes(precision), c.master_hashes, c.master_seed,
                     &AdamWTileHashes::master}},
          .count = precision != Precision::fp32 ? 4u : 3u};
}

AdamWTile tile_of(const AdamWChunk& c, Precision precision, u64 begin, u64 end) {
  return {.elements = end - begin,
          .grad = c.grad + begin * element_bytes(Kind::grad, precision),
          .param = c.param + begin * element_bytes(Kind::param, precision),
          .master = c.master != nullptr ? c.master + begin * adamw_master_bytes(precision) : nullptr,
          .momentum = c.momentum + begin,
          .variance = c.variance + begin,
          .chunk_begin = begin,
          .segments = c.segments};
}

struct Update {
  const AdamWChunk& chunk;
  const Precision precision;
  const AdamWScalars& scalars;
  const HashedKinds kinds;
  const bool hashed;

  // Skipped steps also write the kinds that every update makes anew: their bytes may have held a gradient.
  void leave_as_it_was(const AdamWTile& t) const {
    if (made_by_update(Kind::param, precision))
      round_to_half(reinterpret_cast<const float*>(t.master), reinterpret_cast<u16*>(t.param), precision,
                    t.elements);
  }

  void tile(u64 number) const {
    const u64 begin = number * checksum_block_elements;
    const u64 end = std::min(chunk.elements, begin + checksum_block_elements);
    AdamWTileHashes hashes;
    if (hashed)
      for (const HashedKind& kind : kinds.all())
        xxh3_begin(hashes.*kind.lanes, block_seed(kind.seed, number));
    const AdamWTile of = tile_of(chunk, precision, begin, end);
    const bool made = !scalars.skip && adamw_tile(of, precision, scalars, hashed ? &hashes : nullptr);
    if (scalars.skip) leave_as_it_was(of);
    for (const HashedKind& kind : kinds.all()) {
      if (kind.hashes.empty()) continue;
      const u64 bytes = (end - begin) * kind.element_bytes;
      kind.hashes[number] =
          made ? xxh3_end(hashes.*kind.lanes, bytes)
               : block_checksum({kind.data + begin * kind.element_bytes, bytes}, kind.seed, number);
    }
  }
};

void check_chunk(const AdamWChunk& c, Precision precision) {
  const u64 tiles = div_up(c.elements, checksum_block_elements);
  for (std::span<const u64> hashes : {c.param_hashes, c.master_hashes, c.momentum_hashes, c.variance_hashes})
    CHECK(hashes.empty() || hashes.size() >= tiles, hashes.size(), tiles);
  CHECK((precision != Precision::fp32) == (c.master != nullptr));
  CHECK(c.master_hashes.empty() || precision != Precision::fp32);
  u64 covered = 0;
  for (const DecaySegment& segment : c.segments) {
    CHECK(segment.begin == covered && segment.end > covered, segment.begin, segment.end, covered);
    covered = segment.end;
  }
  CHECK(covered == c.elements, covered, c.elements);
}

}  // namespace

void adamw(const AdamWChunk& chunk, Precision precision, const AdamWScalars& scalars, CorePool& pool) {
  check_chunk(chunk, precision);
  const HashedKinds kinds = kinds_of(chunk, precision);
  const Update update{chunk, precision, scalars, kinds, kinds.wanted()};
  const Tasks tasks(div_up(chunk.elements, checksum_block_elements), pool.workers());
  parallel_for(pool, Priority::high, static_cast<u32>(tasks.count), [&](u32 task, u32) {
    for (u64 tile = tasks.begin(task); tile < tasks.begin(task + 1); ++tile) update.tile(tile);
  });
}

}  // namespace tidepool
