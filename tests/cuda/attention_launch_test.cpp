// Tests the choice of attention kernels and their launch shapes.
#include "kernels/attention/attention_launch.h"

#include <gtest/gtest.h>

#include "kernels/cuda/capability.h"

namespace tidepool::test::attention_launch_test {

using namespace cuda;

constexpr Precision bf16 = Precision::bf16, fp16 = Precision::fp16, fp32 = Precision::fp32;
constexpr AttentionShape one(u32 tokens, u32 head_size, u32 heads = 1) {
  return {.sequences = 1, .tokens = tokens, .heads = heads, .head_size = head_size};
}
constexpr AttentionShape grouped(u32 tokens, u32 head_size, u32 heads, u32 kv_heads) {
  return {.sequences = 1, .tokens = tokens, .heads = heads, .head_size = head_size, .kv_heads = kv_heads};
}

TEST(AttentionLaunch, FitsEveryDevice) {
  for (u32 size = 1; size <= attention_head_size_max; ++size) {
    for (AttentionUnits units : {AttentionUnits::fma, AttentionUnits::tensor, AttentionUnits::tensor_sm70}) {
      if (units != AttentionUnits::fma && size > attention_tensor_size_max) continue;
      const AttentionShape shape = one(100, size);
      for (const LaunchShape& launch :
           {attention_forward_launch(shape, units, false), attention_forward_launch(shape, units, true),
            attention_backward_keys_launch(shape, units), attention_backward_queries_launch(shape, units)}) {
        // fma runs everywhere; tensor also on 86 and 89, which have 99 KiB; sm_70 has 96.
        const u32 most = units == AttentionUnits::fma      ? shared_bytes_default
                         : units == AttentionUnits::tensor ? 99 * 1024
                                                           : 96 * 1024;
        EXPECT_LE(launch.shared_bytes, most) << size;
        EXPECT_LE(launch.block.x, 256u);
        EXPECT_EQ(launch.block.x % warp_threads, 0u);
      }
    }
    if (size <= attention_tensor_size_max) {
      EXPECT_GE(attention_tensor_size(size), size);
    }
    EXPECT_GE(attention_fma_lanes(size) * attention_fma_columns, size);
  }
}

// T = 1 to 2^17 and up to 2^16 heads in all, for each kernel.
TEST(AttentionLaunch, FitsAtTheExtremes) {
  const AttentionShape extremes[] = {
      one(1, 64),
      one(1u << 17, 128, 128),
      one(1u << 17, 1, 1),
      {.sequences = 1u << 16, .tokens = 1, .heads = 1, .head_size = 128},
      {.sequences = 1u << 9, .tokens = 4096, .heads = 1u << 7, .head_size = 64},
      {.sequences = 1, .tokens = 1u << 17, .heads = 1u << 16, .head_size = 256},
      {.sequences = 1, .tokens = 1u << 17, .heads = 1u << 15, .head_size = 512}};
  for (const AttentionShape& s : extremes) {
    const u64 heads = u64{s.sequences} * s.heads;
    const auto covers = [&](const LaunchShape& launch, u64 rows_per_block, u64 parts) {
      EXPECT_GE(launch.grid.x * rows_per_block, heads * s.tokens * parts);
      EXPECT_LE(u64{launch.grid.x}, grid_x_max);
      EXPECT_EQ(launch.grid.x % heads, 0u);
      EXPECT_EQ((Extent{launch.grid.x}), launch.grid);
    };
    for (AttentionUnits units : {AttentionUnits::fma, AttentionUnits::tensor, AttentionUnits::tensor_sm70}) {
      const bool tensor = units != AttentionUnits::fma;
      if (tensor && s.head_size > attention_tensor_size_max) continue;
      const u64 fma_rows = attention_fma_rows(attention_fma_lanes(s.head_size));
      const u64 rows = tensor ? 128 : fma_rows;
      const u64 parts = tensor && s.head_size > 128 ? 2 : 1;
      for (bool dropout : {false, true}) covers(attention_forward_launch(s, units, dropout), rows, 1);
      covers(attention_backward_keys_launch(s, units), rows, parts);
      covers(attention_backward_queries_launch(s, units), rows, 1);
    }
    EXPECT_LE(attention_delta_lanes(s.head_size), warp_threads);
    EXPECT_GE(8 * attention_delta_lanes(s.head_size), std::min(s.head_size, 256u));
    EXPECT_GE(u64{attention_delta_launch(s).grid.x} * (attention_delta_threads / warp_threads) * s.heads,
              s.lse_elements());
  }
}

TEST(AttentionLaunch, CountsBlocks) {
  constexpr u32 t = 1 << 20;
  const AttentionShape longest = {.sequences = 1, .tokens = t, .heads = 128, .head_size = 128};
  EXPECT_EQ(attention_forward_launch(longest, AttentionUnits::tensor, false).grid, (Extent{128 * t / 128}));
  EXPECT_EQ(attention_backward_keys_launch(longest, AttentionUnits::tensor).grid, (Extent{128 * t / 128}));
  EXPECT_EQ(attention_forward_launch(longest, AttentionUnits::fma, true).grid, (Extent{128 * t / 32}));
  EXPECT_EQ(attention_delta_launch(longest).grid, (Extent{t / 8}));
  const AttentionShape many = {.sequences = 8192, .tokens = 1, .heads = 100, .head_size = 64};
  EXPECT_EQ(attention_forward_launch(many, AttentionUnits::tensor, true).grid, (Extent{819'200}));
  EXPECT_EQ(attention_backward_queries_launch(many, AttentionUnits::tensor).grid, (Extent{819'200}));
  // dk and dv belong to kv heads.
  const AttentionShape grouped_queries = grouped(t, 128, 128, 16);
  EXPECT_EQ(attention_forward_launch(grouped_queries, AttentionUnits::tensor, false).grid,
            (Extent{128 * t / 128}));
  EXPECT_EQ(attention_backward_keys_launch(grouped_queries, AttentionUnits::tensor).grid,
            (Extent{16 * t / 128}));
  EXPECT_EQ(attention_backward_keys_launch(grouped_queries, AttentionUnits::fma).grid, (Extent{16 * t / 32}));
  // dk and dv of large heads are computed in two halves.
  EXPECT_EQ(attention_backward_keys_launch(one(129, 256), AttentionUnits::tensor).grid, (Extent{4}));
}

TEST(AttentionLaunch, UsesTensorCoresIfTheDeviceHasThem) {
  EXPECT_EQ(attention_units(bf16, 64, 75), AttentionUnits::fma);
  EXPECT_EQ(attention_units(bf16, 64, 80), AttentionUnits::tensor);
  EXPECT_EQ(attention_units(bf16, 256, 120), AttentionUnits::tensor);
  EXPECT_EQ(attention_units(bf16, 264, 90), AttentionUnits::fma);
  EXPECT_EQ(attention_units(bf16, 20, 90), AttentionUnits::fma);
  EXPECT_EQ(attention_units(fp32, 64, 90), AttentionUnits::fma);
  EXPECT_EQ(attention_units(bf16, 64, 70), AttentionUnits::fma);
  EXPECT_EQ(attention_units(fp16, 64, 70), AttentionUnits::tensor_sm70);
  EXPECT_EQ(attention_units(fp16, 256, 72, AttentionPass::backward), AttentionUnits::tensor_sm70);
  EXPECT_EQ(attention_units(fp16, 20, 70), AttentionUnits::fma);
  EXPECT_EQ(attention_units(fp16, 64, 75), AttentionUnits::tensor);
  // Heads of k and of v may differ.
  AttentionShape shape_of_two = one(100, 96);
  const auto units_of = [&](u32 value_size, AttentionPass pass) {
    shape_of_two.value_size = value_size;
    return attention_units(fp16, shape_of_two, 75, pass);
  };
  EXPECT_EQ(units_of(64, AttentionPass::backward), AttentionUnits::tensor);
  EXPECT_EQ(units_of(128, AttentionPass::forward), AttentionUnits::tensor);
  EXPECT_EQ(units_of(128, AttentionPass::backward), AttentionUnits::fma);
  EXPECT_EQ(units_of(20, AttentionPass::forward), AttentionUnits::fma);
  // sm_75 has 64 KiB of shared memory.
  for (const u32 size : {8u, 64u, 96u, 104u, 128u, 256u}) {
    const AttentionShape shape = one(100, size);
    for (const bool dropout : {false, true}) {
      EXPECT_LE(attention_forward_launch(shape, attention_units(fp16, size, 75), dropout).shared_bytes,
                shared_bytes_everywhere);
    }
    const AttentionUnits back = attention_units(fp16, size, 75, AttentionPass::backward);
    EXPECT_LE(attention_backward_keys_launch(shape, back).shared_bytes, shared_bytes_everywhere);
    EXPECT_LE(attention_backward_queries_launch(shape, back).shared_bytes, shared_bytes_everywhere);
    EXPECT_EQ(back, size > 96 ? AttentionUnits::fma : AttentionUnits::tensor);
  }
}

}  // namespace tidepool::test::attention_launch_test
