// Costs equal those of the kernels that blocks call. Whole layers are counted on paper in
// machine_roofline_test.
#include <gmock/gmock.h>

#include "kernels/dropout/dropout_cost.h"
#include "kernels/embedding/embedding_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "model/blocks.h"

namespace tidepool {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr u64 rows = 96, h = 64, inner = 4 * h, elements = rows * h;

ModelGraph graph_of(double embedding_dropout, double residual_dropout, const LoraConfig& lora = {}) {
  return build_model({.vocab_size = 20'000,
                      .width = h,
                      .layers = 2,
                      .attention = {.heads = 4},
                      .embedding_dropout = embedding_dropout,
                      .residual_dropout = residual_dropout},
                     Precision::fp32, {.sequences = 2, .tokens = 48}, Precision::fp32, lora)
      .value();
}

u64 vector_flops(const std::vector<KernelCost>& kernels) {
  u64 sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel.vector_flops;
  return sum;
}

TEST(RecordedCosts, CountTheEmbeddingsDropout) {
  const Block plain = graph_of(0, 0).blocks[0], dropped = graph_of(0.1, 0).blocks[0];
  EXPECT_EQ(plain.forward_kernels, std::vector{embedding_cost(rows, h)});
  EXPECT_EQ(vector_flops(dropped.forward_kernels),
            vector_flops(plain.forward_kernels) + dropout_flops(elements));
  EXPECT_EQ(dropped.backward_kernels,
            (std::vector{dropout_cost(elements), embedding_backward_cost(rows, h)}));
}

// Adapters add to the residual stream with a dropout mask of their own, and drop out below mlp.c_proj in a
// separate pass.
TEST(RecordedCosts, CountDropoutOfAdapters) {
  const Block adapters = graph_of(0, 0, {.r = 4}).blocks[1], residual = graph_of(0, 0.1, {.r = 4}).blocks[1];
  EXPECT_EQ(vector_flops(residual.forward_kernels),
            vector_flops(adapters.forward_kernels) + 4 * dropout_flops(elements));
  const Block dropped = graph_of(0, 0, {.r = 4, .dropout = 0.1}).blocks[1];
  EXPECT_THAT(dropped.backward_kernels, Contains(dropout_cost(rows * inner)));
  EXPECT_THAT(adapters.backward_kernels, Not(Contains(dropout_cost(rows * inner))));
}

TEST(RecordedCosts, SlicesOfTheVocabularyAreOneProduct) {
  const Block head = graph_of(0, 0).blocks.back();
  EXPECT_THAT(head.forward_kernels, Contains(matmul_cost(rows, 20'000, h, 4)).Times(1));
  EXPECT_THAT(head.backward_kernels, Contains(matmul_cost(rows, 20'000, h, 4)).Times(2));
}

TEST(RecordedCosts, RecomputeHasTheKernelsOfTheInside) {
  const ModelGraph g = graph_of(0, 0);
  EXPECT_THAT(g.blocks.front().recompute_kernels, testing::IsEmpty());
  EXPECT_THAT(g.blocks.back().recompute_kernels, testing::IsEmpty());
  // Norm, qkv, attention, product, residual sum, and the MLP's first product.
  EXPECT_EQ(g.blocks[1].recompute_kernels.size(), 6u);
  EXPECT_EQ(g.blocks[1].recompute_kernels.back(), matmul_cost(rows, inner, h, 4));
  EXPECT_EQ(g.blocks[2].backward_kernels, g.blocks[1].backward_kernels);
}

}  // namespace
}  // namespace tidepool
