// Matrix instructions of a warp: lanes bring fragments, the last one to come does the work of all.
#include <atomic>
#include <bit>
#include <cstring>

#include "block.h"
#include "control.h"
#include "failure.h"
#include "tidepool/fp16.h"

namespace emulated_cuda {
namespace {

constexpr unsigned every_lane = 0xffff'ffff;

struct MmaIn {
  std::uint32_t a[4], b[2];
  float d[4];
};

// Element `odd` of a pair of bf16 or fp16.
template <bool fp16>
float element(std::uint32_t pair, unsigned odd) {
  if (fp16) return tidepool::float_from_fp16(static_cast<std::uint16_t>(odd != 0 ? pair >> 16 : pair));
  return std::bit_cast<float>(odd != 0 ? pair & 0xffff'0000u : pair << 16);
}

template <bool fp16>
void run_mma(const WarpView& warp) {
  float a[16][16], b[16][8];
  const auto in = [&](unsigned lane) -> const MmaIn& { return *static_cast<const MmaIn*>(warp.in[lane]); };
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    const unsigned row = lane / 4, pair = 2 * (lane % 4);
    for (unsigned odd = 0; odd < 2; ++odd) {
      for (unsigned i = 0; i < 4; ++i)
        a[row + 8 * (i % 2)][pair + 8 * (i / 2) + odd] = element<fp16>(in(lane).a[i], odd);
      for (unsigned i = 0; i < 2; ++i) b[pair + 8 * i + odd][row] = element<fp16>(in(lane).b[i], odd);
    }
  }
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    float* d = static_cast<float*>(warp.out[lane]);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      float sum = in(lane).d[i];
      for (unsigned k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      d[i] = sum;
    }
  }
}

std::atomic<std::uint64_t> conflicts = 0;

// Shared memory is 8 groups of banks of 16 bytes; a matrix comes at once if each of its rows is in another
// one.
void count_conflicts(const WarpView& warp) {
  for (unsigned m = 0; m < 4; ++m) {
    unsigned groups = 0;
    for (unsigned i = 0; i < 8; ++i)
      groups |= 1u << reinterpret_cast<std::uintptr_t>(warp.in[8 * m + i]) / 16 % 8;
    if (groups != 0xff) ++conflicts;
  }
}

template <bool transposed>
void run_load_matrices(const WarpView& warp) {
  count_conflicts(warp);
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    auto* r = static_cast<std::uint32_t*>(warp.out[lane]);
    for (unsigned m = 0; m < 4; ++m) {
      std::uint16_t pair[2];
      for (unsigned odd = 0; odd < 2; ++odd) {
        const unsigned near = lane / 4, along = 2 * (lane % 4) + odd;
        const auto* row = static_cast<const std::uint16_t*>(warp.in[8 * m + (transposed ? along : near)]);
        pair[odd] = row[transposed ? near : along];
      }
      std::memcpy(&r[m], pair, sizeof pair);
    }
  }
}

}  // namespace

std::uint64_t matrix_bank_conflicts() { return conflicts; }

void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bool fp16,
                 std::source_location where) {
  MmaIn in;
  std::memcpy(in.a, a, sizeof a);
  std::memcpy(in.b, b, sizeof b);
  std::memcpy(in.d, d, sizeof d);
  warp_collective(every_lane, &in, d, fp16 ? run_mma<true> : run_mma<false>, "mma_16x8x16", where);
}

void load_matrices(std::uint32_t (&r)[4], const void* row, bool transposed, std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    fail("load_matrices: a row that is not aligned to 16 bytes");
  warp_collective(every_lane, row, r, transposed ? run_load_matrices<true> : run_load_matrices<false>,
                  "load_matrices", where);
}

}  // namespace emulated_cuda
