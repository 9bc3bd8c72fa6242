// Tests which layers launch the same in every step, and when a GPU's budget reserves room for their graphs.
#include "executor/repeated_ops.h"

#include <gtest/gtest.h>

#include "executor/gpu_reserved.h"
#include "model/blocks.h"

namespace tidepool::repeated_ops_test {

// GPT-2 small.
ModelConfig small_model() {
  return {.vocab_size = 50257, .positions = 1024, .width = 768, .layers = 12, .attention = {.heads = 12}};
}
ModelGraph graph_of(const ModelConfig& model, u32 sequences, const LoraConfig& lora = {}) {
  return build_model(model, Precision::bf16, {.sequences = sequences, .tokens = 1024}, Precision::bf16, lora)
      .value();
}
std::vector<BlockKind> repeating(const ModelGraph& graph) {
  std::vector<BlockKind> kinds;
  for (const Block& block : graph.blocks)
    if (launches_repeat(graph, block)) kinds.push_back(block.kind);
  return kinds;
}

TEST(RepeatedOps, AreLayersThatDropNothing) {
  const std::vector<BlockKind> layers(12, BlockKind::layer);
  ModelConfig model = small_model();
  EXPECT_EQ(repeating(graph_of(model, 1)), layers);
  model.embedding_dropout = 0.1;
  EXPECT_EQ(repeating(graph_of(model, 1)), layers);
  model.residual_dropout = 0.1;
  EXPECT_TRUE(repeating(graph_of(model, 1)).empty());
  model.residual_dropout = 0, model.attention.dropout = 0.1;
  EXPECT_TRUE(repeating(graph_of(model, 1)).empty());
  EXPECT_EQ(repeating(graph_of(small_model(), 1, {.r = 8})), layers);
  EXPECT_TRUE(repeating(graph_of(small_model(), 1, {.r = 8, .dropout = 0.1})).empty());
}

// A layer's forward of GPT-2 small: 7.1 M weights and 8192 tokens are 0.13 TFLOP, 0.04 ms on the fastest GPU.
// With eight times the tokens no GPU needs less than 0.2 ms.
TEST(RepeatedOps, RoomIsReservedIfOpsMayBeShort) {
  const ModelGraph few = graph_of(small_model(), 8), many = graph_of(small_model(), 64);
  EXPECT_TRUE(may_have_short_ops(few));
  EXPECT_EQ(gpu_reserved(few, 1).graphs, gpu_graphs_max);
  EXPECT_EQ(gpu_reserved(few, 1).total(), gpu_reserved(few, 1).in_arena() + gpu_graphs_max);
  EXPECT_FALSE(may_have_short_ops(many));
  EXPECT_EQ(gpu_reserved(many, 1).graphs, Bytes{0});
  ModelConfig drops = small_model();
  drops.residual_dropout = 0.1;
  EXPECT_EQ(gpu_reserved(graph_of(drops, 8), 1).graphs, Bytes{0});
}

}  // namespace tidepool::repeated_ops_test
