// Compares times of kernels and of whole blocks with sums made on paper.
#include "machine/roofline.h"

#include <gtest/gtest.h>

#include "kernels/attention/attention_cost.h"
#include "model/blocks.h"

namespace tidepool::roofline_test {

Machine gpu() {
  Machine m;
  m.device.kind = DeviceKind::cuda;
  m.device.flops_per_s = {15.7e12, 15.7e12, 125e12};
  m.device.memory_bytes_per_s = 750e9;
  m.device.block_efficiency = 0.6;
  return m;
}

TEST(Roofline, AKernelTakesTheLongerOfItsTwoTimes) {
  const KernelCost product{.m = 1024, .n = 1024, .k = 1024, .product_flops = u64{2} << 30, .elements = 1000};
  EXPECT_DOUBLE_EQ(kernel_seconds(product, gpu(), Precision::fp16), 2147483648 / (125e12 * 0.6));
  EXPECT_DOUBLE_EQ(kernel_seconds(product, gpu(), Precision::fp32), 2147483648 / (15.7e12 * 0.6));
  const KernelCost streaming{.vector_flops = 1000, .elements = 1'000'000, .bytes = 500'000};
  EXPECT_DOUBLE_EQ(kernel_seconds(streaming, gpu(), Precision::fp16), 2.5e6 / 750e9);
  EXPECT_DOUBLE_EQ(kernel_seconds(streaming, gpu(), Precision::fp32), 4.5e6 / 750e9);
  const KernelCost exponentials{.vector_flops = 1'000'000'000, .elements = 1'000'000};
  EXPECT_DOUBLE_EQ(kernel_seconds(exponentials, gpu(), Precision::fp16), 1e9 / 15.7e12);
}

// Regression: bf16 had the rate of fp16 on a V100, which cannot use that rate for bf16.
TEST(Roofline, EachPrecisionHasItsOwnRate) {
  Machine m = gpu();
  EXPECT_EQ(matmul_rate(m, Precision::fp32), 15.7e12);
  EXPECT_EQ(matmul_rate(m, Precision::bf16), 15.7e12);
  EXPECT_EQ(matmul_rate(m, Precision::fp16), 125e12);
  EXPECT_TRUE(lacks_bf16(m));
  m.device.flops_per_s[static_cast<u32>(MathType::bf16)] = 125e12;
  EXPECT_FALSE(lacks_bf16(m));
}

TEST(Roofline, CoresNeedNoBf16) {
  Machine cpu = gpu();
  cpu.device.kind = DeviceKind::cpu;
  EXPECT_FALSE(lacks_bf16(cpu));
}

TEST(Roofline, ACpuComputesIn32BitsForAnyTypeOfWeights) {
  Machine cpu = gpu();
  cpu.device.kind = DeviceKind::cpu;
  EXPECT_DOUBLE_EQ(kernel_seconds({.elements = 1'000'000}, cpu, Precision::fp16), 4e6 / 750e9);
}

TEST(Roofline, OnlyProductsThatDoNotFillTheDevicePay) {
  EXPECT_EQ(filled_share(100, 100, 0), 1);
  EXPECT_EQ(filled_share(64, 64, 80), 1.0 / 80);                         // one tile, 80 processors
  EXPECT_EQ(filled_share(640, 512, 80), 1);                              // 10 x 8 of 64 x 64
  EXPECT_EQ(filled_share(640, 513, 80), 640.0 * 513 / (160 * 64 * 64));  // 90 tiles are two waves
  EXPECT_GT(filled_share(8192, 2048, 80), 0.98);
  EXPECT_GT(filled_share(8192, 4096, 80), 0.98);
}

// 8 experts of 128 rows have 1.5 tiles each, times 2 of columns: 24 tiles. One expert of 1024 rows has 8.5,
// so 17 tiles.
TEST(Roofline, ProductsOfExpertsPayForRowsThatDoNotFillTiles) {
  Machine m = gpu();
  const auto seconds = [&](u64 groups) {
    return kernel_seconds(
        KernelCost{
            .m = 1024, .n = 256, .k = 4096, .groups = groups, .product_flops = u64{2} * 1024 * 256 * 4096},
        m, Precision::fp16);
  };
  const double flops = 2.0 * 1024 * 256 * 4096, rate = 125e12 * 0.6 * 0.8;
  EXPECT_DOUBLE_EQ(seconds(8), flops / rate);  // without processors nothing is known of tiles
  m.device.processors = 12;
  EXPECT_DOUBLE_EQ(seconds(8), flops / rate / (1024.0 * 256 / (24 * 128 * 128)));
  EXPECT_DOUBLE_EQ(seconds(1), flops / rate / (1024.0 * 256 / (24 * 128 * 128)));  // 17 tiles, two waves
  m.device.processors = 17;
  EXPECT_DOUBLE_EQ(seconds(1), flops / rate / (1024.0 * 256 / (17 * 128 * 128)));
  EXPECT_DOUBLE_EQ(seconds(8), flops / rate / (1024.0 * 256 / (34 * 128 * 128)));
  m.device.flops_per_s.fill(1e16);
  EXPECT_DOUBLE_EQ(seconds(1), flops / 350e12);  // as much as the cache feeds
}

TEST(Roofline, EfficiencyIsFoundFromATime) {
  Machine m = gpu();
  const KernelCost kernels[] = {{.m = 4096, .n = 4096, .k = 4096, .product_flops = u64{2} << 36},
                                {.elements = 100'000'000}};
  const double seconds = kernel_seconds(kernels, m, Precision::fp16);
  EXPECT_NEAR(efficiency_of(kernels, seconds, m, Precision::fp16), 0.6, 1e-9);
  EXPECT_EQ(efficiency_of(kernels, seconds / 100, m, Precision::fp16), 1);
  EXPECT_NEAR(efficiency_of(kernels, seconds * 1000, m, Precision::fp16), 0.01, 1e-9);
}

// One layer of PatrickStar's 1B model: h = 2048, 16 heads of 128, 8 x 1024 rows, counted on paper in units of
// rows x h. Products move less than 1/10 of what memory could move meanwhile, so their flops count.
TEST(Roofline, ALayerIsTheSumOfItsKernels) {
  const ModelGraph g =
      build_model({.vocab_size = 50257, .width = 2048, .layers = 2, .attention = {.heads = 16}},
                  Precision::fp16, {.sequences = 8, .tokens = 1024})
          .value();
  const Block& layer = g.blocks[1];
  const double rows = 8192, h = 2048, unit = rows * h;
  const double product_rate = 125e12 * 0.6, vector_rate = 15.7e12, memory = 750e9;
  const double pairs = static_cast<double>(attention_pairs({8, 1024, 16, 128}));
  EXPECT_EQ(pairs, 8 * 16 * 1024.0 * (1024 + attention_query_rows) / 2);
  const auto seconds = [&](const std::vector<KernelCost>& k) {
    return kernel_seconds(k, gpu(), g.precision);
  };

  // Forward: 24 rows h^2 in four products; attention; two norms (2 + 4 bytes), two residuals (2 + 8), GELU
  // over 4 h (2 in, 2 out).
  const double attention = pairs * 4 * 128 / (product_rate / 2) + pairs * 12 / vector_rate;
  const double forward = 24 * rows * h * h / product_rate + attention + (2 * 6 + 2 * 10 + 16) * unit / memory;
  EXPECT_NEAR(seconds(layer.forward_kernels), forward, 1e-9 * forward);

  // Backward: twice the products; norms recomputed; norms' gradients (2 + 12); GELU's over 4 h (4 x 2); sums
  // for biases of 3 h, h, 4 h and h.
  const double attention_backward = pairs * 10 * 128 / (product_rate / 2) + pairs * 16 / vector_rate;
  const double backward =
      48 * rows * h * h / product_rate + attention_backward + (2 * 6 + 2 * 14 + 32 + 18) * unit / memory;
  EXPECT_NEAR(seconds(layer.backward_kernels), backward, 1e-9 * backward);

  // Recompute: all but the last product (8 rows h^2), GELU, the second norm and residual.
  const double recompute = 16 * rows * h * h / product_rate + attention + (6 + 10) * unit / memory;
  EXPECT_NEAR(seconds(layer.recompute_kernels), recompute, 1e-9 * recompute);
}

TEST(Roofline, WiderLayersReachMore) {
  const auto flops_per_s = [](u32 h) {
    const ModelGraph g = build_model({.width = h, .layers = 1, .attention = {.heads = 16}}, Precision::fp16,
                                     {.sequences = 8, .tokens = 1024})
                             .value();
    const Block& layer = g.blocks[1];
    return static_cast<double>(layer.forward_flops) /
           kernel_seconds(layer.forward_kernels, gpu(), g.precision);
  };
  EXPECT_LT(flops_per_s(1024), flops_per_s(2048));
  EXPECT_LT(flops_per_s(2048), flops_per_s(4096));
  EXPECT_LT(flops_per_s(4096), 0.6 * 125e12);
}

TEST(Roofline, TheHeadCountsEveryPassOverItsLogits) {
  const ModelGraph g =
      build_model({.vocab_size = 50257, .width = 1024, .layers = 1, .attention = {.heads = 8}},
                  Precision::fp16, {.sequences = 2, .tokens = 512})
          .value();
  const double product = 2.0 * 1024 * 1024 * 50257;
  u64 flops = 0;
  for (const KernelCost& kernel : g.blocks.back().backward_kernels) flops += kernel.product_flops;
  EXPECT_EQ(static_cast<double>(flops), 4 * product);  // logits twice, two gradients
}

}  // namespace tidepool::roofline_test
