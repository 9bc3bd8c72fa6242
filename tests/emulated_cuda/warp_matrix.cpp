// Matrix instructions of a warp: lanes supply fragments, the last arriving lane computes for all.
#include <atomic>
#include <bit>
#include <cstring>

#include "block.h"
#include "control.h"
#include "failure.h"
#include "runtime.h"
#include "tidepool/fp16.h"

namespace emulated_cuda {
namespace {

constexpr unsigned every_lane = 0xffff'ffff;

int capability() { return 10 * runtime().options.major + runtime().options.minor; }

struct MmaIn {
  std::uint32_t a[4], b[2];
  float d[4];
};

// RETURNS: element `odd` of a pair of bf16 or fp16.
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

struct QuadPairIn {
  std::uint32_t a[2], b[2];
  float d[8];
};

template <bool b_by_rows>
void run_quad_pairs(const WarpView& warp) {
  for (unsigned pair = 0; pair < 4; ++pair) {
    const auto lane_of = [&](unsigned eighth) { return 4 * pair + eighth % 4 + 16 * (eighth / 4); };
    float a[8][4], b[4][8];
    for (unsigned eighth = 0; eighth < 8; ++eighth) {
      const auto& in = *static_cast<const QuadPairIn*>(warp.in[lane_of(eighth)]);
      for (unsigned i = 0; i < 4; ++i) {
        a[eighth][i] = element<true>(in.a[i / 2], i % 2);
        const float right = element<true>(in.b[i / 2], i % 2);
        (b_by_rows ? b[eighth % 4][4 * (eighth / 4) + i] : b[i][eighth]) = right;
      }
    }
    for (unsigned eighth = 0; eighth < 8; ++eighth) {
      const auto& in = *static_cast<const QuadPairIn*>(warp.in[lane_of(eighth)]);
      auto* d = static_cast<float*>(warp.out[lane_of(eighth)]);
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned row = eighth % 2 + eighth / 4 * 4 + (i & 2), column = (eighth & 2) + (i & 1) + (i & 4);
        d[i] = in.d[i];
        for (unsigned k = 0; k < 4; ++k) d[i] += a[row][k] * b[k][column];
      }
    }
  }
}

std::atomic<std::uint64_t> conflicts = 0;

// Shared memory delivers 128 bytes at once, so lanes are served in groups that read as much. Lanes of a group
// that read the same words share them.
template <unsigned bytes>
void count_read_conflicts(const WarpView& warp) {
  constexpr unsigned lanes = 128 / bytes;
  for (unsigned first = 0; first < warp_lanes; first += lanes) {
    const void* wanted[lanes] = {};
    bool conflict = false;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      const void*& of_banks = wanted[reinterpret_cast<std::uintptr_t>(warp.in[lane]) / bytes % lanes];
      conflict |= of_banks != nullptr && of_banks != warp.in[lane];
      of_banks = warp.in[lane];
    }
    if (conflict) ++conflicts;
  }
}

// Shared memory has 8 groups of banks of 16 bytes; a matrix is loaded at once if all its rows are in
// different groups.
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

std::uint64_t shared_bank_conflicts() { return conflicts; }

void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bool fp16,
                 std::source_location where) {
  if (capability() < (fp16 ? 75 : 80))
    fail("mma_16x8x16 on a device without it: what calls it is empty there");
  MmaIn in;
  std::memcpy(in.a, a, sizeof a);
  std::memcpy(in.b, b, sizeof b);
  std::memcpy(in.d, d, sizeof d);
  warp_collective(every_lane, &in, d, fp16 ? run_mma<true> : run_mma<false>, "mma_16x8x16", where);
}

void mma_8x8x4(float (&d0)[4], float (&d1)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[2],
               bool b_by_rows, std::source_location where) {
  if (capability() >= 75) fail("mma_8x8x4 from sm_75 on: kernels that call it are empty there");
  QuadPairIn in;
  float d[8];
  std::memcpy(in.a, a, sizeof a);
  std::memcpy(in.b, b, sizeof b);
  std::memcpy(in.d, d0, sizeof d0);
  std::memcpy(in.d + 4, d1, sizeof d1);
  warp_collective(every_lane, &in, d, b_by_rows ? run_quad_pairs<true> : run_quad_pairs<false>, "mma_8x8x4",
                  where);
  std::memcpy(d0, d, sizeof d0);
  std::memcpy(d1, d + 4, sizeof d1);
}

void count_shared_read(const void* p, unsigned bytes, std::source_location where) {
  if (bytes != 8 && bytes != 16) fail("count_shared_read: 8 or 16 bytes");
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) fail("a read of shared memory that is not aligned");
  warp_collective(every_lane, p, nullptr, bytes == 8 ? count_read_conflicts<8> : count_read_conflicts<16>,
                  "count_shared_read", where);
}

void load_matrices(std::uint32_t (&r)[4], const void* row, bool transposed, std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    fail("load_matrices: a row that is not aligned to 16 bytes");
  warp_collective(every_lane, row, r, transposed ? run_load_matrices<true> : run_load_matrices<false>,
                  "load_matrices", where);
}

}  // namespace emulated_cuda
