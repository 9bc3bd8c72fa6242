// One task takes one tile of checksum_block_elements: it updates a piece that fits the first-level
// cache, hashes what it wrote while it is there, and goes on with the next piece.
//
// The sum: fp32 reads 16 and writes 12 bytes per parameter, so at 12 GB/s per core a tile of 16 Ki
// elements takes 38 us of memory time. Its arithmetic (one square root and one division per element,
// about 1.3 cycles) takes 8 us, its XXH3 (196 KiB at 40 GB/s) 5 us: both hide behind the memory only
// if they are spread evenly between the loads, hence the small pieces.
#include <algorithm>

#include "kernels/adamw/adamw_range.h"
#include "kernels/checksum.h"
#include "kernels/checksum/xxh3.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

constexpr u64 piece_elements = 1024;
static_assert(checksum_block_elements % piece_elements == 0);

// XXH3 of one kind of one tile, fed piece by piece. Equals block_checksum of the whole.
class TileHash {
 public:
  TileHash(std::span<u64> hashes, u64 seed, u64 tile) : out_(hashes.empty() ? nullptr : &hashes[tile]) {
    if (out_ != nullptr) XXH3_64bits_reset_withSeed(&state_, block_seed(seed, tile));
  }
  void add(const void* data, u64 bytes) {
    if (out_ != nullptr) XXH3_64bits_update(&state_, data, bytes);
  }
  void finish() {
    if (out_ != nullptr) *out_ = XXH3_64bits_digest(&state_);
  }

 private:
  XXH3_state_t state_;
  u64* out_;
};

class TileHashes {
 public:
  TileHashes(const AdamWChunk& c, u64 tile)
      : param_(c.param_hashes, c.param_seed, tile),
        low_(c.low_hashes, c.low_seed, tile),
        momentum_(c.momentum_hashes, c.momentum_seed, tile),
        variance_(c.variance_hashes, c.variance_seed, tile) {}

  void add(const AdamWChunk& c, Precision precision, u64 begin, u64 end) {
    const u64 param_bytes = element_bytes(Kind::param, precision), low_bytes = sizeof(u16);
    param_.add(c.param + begin * param_bytes, (end - begin) * param_bytes);
    low_.add(c.master_low + begin * low_bytes, (end - begin) * low_bytes);
    momentum_.add(c.momentum + begin, (end - begin) * sizeof(float));
    variance_.add(c.variance + begin, (end - begin) * sizeof(float));
  }
  void finish() { param_.finish(), low_.finish(), momentum_.finish(), variance_.finish(); }

 private:
  TileHash param_, low_, momentum_, variance_;
};

AdamWRange range_of(const AdamWChunk& c, Precision precision, u64 begin, u64 end, bool decay) {
  return {.elements = end - begin,
          .grad = c.grad + begin * element_bytes(Kind::grad, precision),
          .param = c.param + begin * element_bytes(Kind::param, precision),
          .master_low = c.master_low != nullptr ? c.master_low + begin * sizeof(u16) : nullptr,
          .momentum = c.momentum + begin,
          .variance = c.variance + begin,
          .decay = decay};
}

void update_piece(const AdamWChunk& c, Precision precision, const AdamWScalars& s, u64 begin, u64 end) {
  auto segment = std::ranges::upper_bound(c.segments, begin, {}, &DecaySegment::end);
  for (; begin < end; begin = segment->end, ++segment)
    adamw_range(range_of(c, precision, begin, std::min(end, segment->end), segment->decay), precision, s);
}

void update_tile(const AdamWChunk& c, Precision precision, const AdamWScalars& s, u64 tile) {
  TileHashes hashes(c, tile);
  const u64 tile_end = std::min(c.elements, (tile + 1) * checksum_block_elements);
  for (u64 begin = tile * checksum_block_elements; begin < tile_end; begin += piece_elements) {
    const u64 end = std::min(tile_end, begin + piece_elements);
    if (!s.skip) update_piece(c, precision, s, begin, end);
    hashes.add(c, precision, begin, end);
  }
  hashes.finish();
}

void check_chunk(const AdamWChunk& c, Precision precision) {
  const u64 tiles = div_up(c.elements, checksum_block_elements);
  for (std::span<const u64> hashes : {c.param_hashes, c.low_hashes, c.momentum_hashes, c.variance_hashes})
    CHECK(hashes.empty() || hashes.size() >= tiles, hashes.size(), tiles);
  CHECK((precision == Precision::bf16) == (c.master_low != nullptr));
  CHECK(c.low_hashes.empty() || precision == Precision::bf16);
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
  const u64 tiles = div_up(chunk.elements, checksum_block_elements);
  parallel_for(pool, Priority::high, static_cast<u32>(tiles),
               [&](u32 tile, u32) { update_tile(chunk, precision, scalars, tile); });
}

}  // namespace tidepool
