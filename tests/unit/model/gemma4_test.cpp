// Graphs of Gemma 4: its windows, blocks and streams, against transformers' numbers of parameters.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "model/blocks.h"
#include "model/layer_tensors.h"

namespace tidepool::gemma4_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig default_shape() {
  ModelConfig c = default_model(Family::gemma4_text);
  c.vocab_size = 262144, c.positions = 131072, c.width = 2304, c.layers = 30, c.attention.heads = 8;
  c.attention.kv_heads_given = 4, c.mlp.inner_given = 9216, c.softmax.head_size_given = 256;
  c.softmax.global_head_size = 512, c.softmax.sliding_window = 512, c.layer_inputs.width = 256;
  return c;
}

ModelGraph graph_of(const ModelConfig& c) {
  return build_model(c, Precision::bf16, {.sequences = 1, .tokens = 64}, Precision::bf16).value();
}

std::vector<std::string> block_names(const ModelGraph& g) {
  std::vector<std::string> names;
  for (const Block& block : g.blocks) names.push_back(block.name);
  return names;
}

std::string streams_of(const ModelGraph& g, const std::vector<StreamUse>& uses) {
  std::string text;
  for (const StreamUse& use : uses) {
    const char* const access = use.access == Access::read ? "<" : use.access == Access::write ? ">" : "=";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", access, name(g.streams[use.stream].kind));
  }
  return text;
}

TEST(Gemma4Graph, HasAsManyParametersAsTransformers) {
  EXPECT_EQ(graph_of(default_shape()).parameters, 5077177886u);
  ModelConfig shared = default_shape();
  shared.layers = 35, shared.width = 1536, shared.mlp.inner_given = 6144, shared.attention.kv_heads_given = 1;
  shared.softmax.shared_layers = 20, shared.mlp.double_wide = true;
  EXPECT_EQ(graph_of(shared).parameters, 4621490979u);
  ModelConfig dense = default_shape();
  dense.layers = 60, dense.width = 5376, dense.mlp.inner_given = 21504, dense.attention.heads = 32;
  dense.attention.kv_heads_given = 16, dense.softmax.global_kv_heads = 4,
  dense.softmax.keys_are_values = true;
  dense.layer_inputs.width = 0;
  EXPECT_EQ(graph_of(dense).parameters, 30697345340u);
}

TEST(Gemma4Graph, ALayersScalarDoesNotDecay) {
  const ModelGraph g = graph_of(default_shape());
  u32 scalars = 0;
  for (const Window& window : g.windows)
    for (const Tensor& tensor : window.tensors)
      if (tensor.name.ends_with(".layer_scalar")) {
        ++scalars;
        EXPECT_TRUE(tensor.constant && !tensor.weight_decay);
        EXPECT_EQ(tensor.init, Init::ones);
      }
  EXPECT_EQ(scalars, 30u);
}

TEST(Gemma4Graph, LayersOfTwoKindsDifferInTheirHeads) {
  ModelConfig c = default_shape();
  c.softmax.keys_are_values = true, c.softmax.global_kv_heads = 2;
  EXPECT_TRUE(c.slides(4) && !c.slides(5) && c.slides(6) && !c.slides(29));
  EXPECT_EQ(c.head_size(4), 256u);
  EXPECT_EQ(c.head_size(5), 512u);
  EXPECT_EQ(c.qkv_product_width(4), (8 + 2 * 4) * 256u);
  EXPECT_EQ(c.qkv_product_width(5), (8 + 2) * 512u);
  EXPECT_EQ(c.qkv_width(5), (8 + 2 * 2) * 512u);
}

TEST(Gemma4Graph, StreamsGoFromTheirMakersToTheirReaders) {
  ModelConfig c = default_shape();
  c.vocab_size = 64, c.width = 32, c.layers = 6, c.mlp.inner_given = 48, c.softmax.head_size_given = 8;
  c.softmax.global_head_size = 16, c.layer_inputs.width = 4;
  c.softmax.sliding_window_pattern = 3, c.softmax.shared_layers = 3;
  const ModelGraph g = graph_of(c);
  EXPECT_THAT(block_names(g),
              ElementsAre("embedding", "layer_embedding", "layer_inputs", "layers.0", "layers.1", "layers.2",
                          "layers.3", "layers.4", "layers.5", "head"));
  const auto forward = [&](u32 b) { return streams_of(g, g.blocks[b].forward_streams); };
  const auto backward = [&](u32 b) { return streams_of(g, g.blocks[b].backward_streams); };
  EXPECT_EQ(forward(1), ">layer_inputs");
  EXPECT_EQ(forward(2), "<activation =layer_inputs");
  EXPECT_EQ(forward(3), "<activation <layer_inputs >activation");
  EXPECT_EQ(forward(4), "<activation <layer_inputs >shared_keys >activation");
  EXPECT_EQ(forward(6), "<activation <layer_inputs <shared_keys >activation");
  EXPECT_EQ(backward(8),
            "<activation <layer_inputs <shared_keys =activation_grad >shared_keys_grad >layer_inputs_grad");
  EXPECT_EQ(backward(7),
            "<activation <layer_inputs <shared_keys =activation_grad >shared_keys_grad =layer_inputs_grad");
  EXPECT_EQ(backward(6),
            "<activation <layer_inputs <shared_keys =activation_grad =shared_keys_grad =layer_inputs_grad");
  EXPECT_EQ(backward(4), "<activation <layer_inputs =activation_grad <shared_keys_grad =layer_inputs_grad");
  EXPECT_EQ(backward(2), "<activation =activation_grad =layer_inputs_grad");
  EXPECT_EQ(backward(1), "<layer_inputs_grad");
  EXPECT_EQ(g.blocks[4].forward_streams[2].stream,
            g.blocks[7].forward_streams[2].stream);  // those with a window
  EXPECT_EQ(g.blocks[5].forward_streams[2].stream, g.blocks[8].forward_streams[2].stream);
  EXPECT_EQ(LayerTensors(c, 3).modules().count, LayerTensors(c, 0).modules().count - 2);
}

TEST(Gemma4Graph, ExpertsAreABranchThatTheEndAdds) {
  ModelConfig c = default_shape();
  c.vocab_size = 64, c.width = 32, c.layers = 2, c.mlp.inner_given = 48, c.softmax.head_size_given = 8;
  c.softmax.global_head_size = 16, c.layer_inputs.width = 0;
  c.experts.count = 8, c.experts.chosen = 2, c.experts.inner_given = 24;
  const auto graph = [](const ModelConfig& config) {
    return build_model(config, Precision::bf16, {.sequences = 1, .tokens = 64}, Precision::bf16, {}, 4)
        .value();
  };
  const ModelGraph g = graph(c);
  EXPECT_THAT(block_names(g),
              ElementsAre("embedding", "layers.0.attention", "layers.0.experts.0-3", "layers.0.experts.4-7",
                          "layers.0.end", "layers.1.attention", "layers.1.experts.0-3",
                          "layers.1.experts.4-7", "layers.1.end", "head"));
  const auto forward = [&](u32 b) { return streams_of(g, g.blocks[b].forward_streams); };
  const auto backward = [&](u32 b) { return streams_of(g, g.blocks[b].backward_streams); };
  EXPECT_EQ(forward(1), "<activation >post_attention >branches >normed >routes >router_sums");
  EXPECT_EQ(forward(2), "<normed <routes >expert_sum");
  EXPECT_EQ(forward(3), "=branches <normed <routes <expert_sum");
  EXPECT_EQ(forward(4), "<post_attention <branches >activation");
  EXPECT_EQ(backward(4), "<branches =activation_grad >branches_grad");
  EXPECT_EQ(backward(3), "<normed <routes <branches_grad >normed_grad >routes_grad");
  EXPECT_EQ(backward(2), "<normed <routes <branches_grad =normed_grad =routes_grad");
  EXPECT_EQ(backward(1),
            "<activation <routes <router_sums =activation_grad <branches_grad =normed_grad <routes_grad");
  c.layer_inputs.width = 4;
  const ModelGraph with_inputs = graph(c);
  EXPECT_EQ(streams_of(with_inputs, with_inputs.blocks[6].backward_streams),
            "<post_attention <branches <layer_inputs =activation_grad >branches_grad =layer_inputs_grad");
  EXPECT_NE(with_inputs.blocks[3].forward_streams[1].stream, with_inputs.blocks[7].forward_streams[1].stream);
}

TEST(Gemma4Graph, ExpertsAreParametersThatATokenUsesInPart) {
  ModelConfig c = default_shape();
  c.layer_inputs.width = 0;
  const u64 dense = graph_of(c).parameters;
  c.experts.count = 16, c.experts.chosen = 4, c.experts.inner_given = 704;
  const ModelGraph g = graph_of(c);
  const u64 expert = 3 * u64{704} * 2304, beside = 16 * u64{2304} + 2304 + 16 + 3 * 2304;
  EXPECT_EQ(g.parameters, dense + 30 * (16 * expert + beside));
  EXPECT_EQ(g.active_parameters, dense + 30 * (4 * expert + beside));
}

TEST(Gemma4Graph, RefusesLayersWithoutKeysToRead) {
  ModelConfig c = default_shape();
  c.softmax.shared_layers = 26;  // the first layers all have a window
  const auto fault = check_model(c);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->key, "num_kv_shared_layers");
  EXPECT_THAT(fault->reason, HasSubstr("leaves layer 5"));
}

}  // namespace tidepool::gemma4_test
