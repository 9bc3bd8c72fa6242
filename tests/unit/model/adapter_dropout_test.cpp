// Dropout below adapters, on their module's x: y += lora_alpha / r dropout(x) A^T B^T, as PEFT's layers
// compute it.
#include <gtest/gtest.h>

#include "model/adapters.h"
#include "model/block_calls.h"
#include "model/layer_tensors.h"
#include "tests/support/model_runner.h"

namespace tidepool::test::adapter_dropout_test {

constexpr u32 rows = 6, width = 32, rank = 4, layer_block = 2;
constexpr float scale = 3;  // lora_alpha / r
constexpr FusedModules q_proj = {0, 1}, v_proj = {2, 1};

ModelGraph graph_with(double dropout) {
  ModelConfig c = default_model(Family::llama);
  c.vocab_size = 64, c.positions = 32, c.width = width, c.layers = 2, c.attention.heads = 4;
  c.mlp.inner_given = 48, c.attention.kv_heads_given = 4;
  return build_model(
             c, Precision::fp32, {.sequences = 1, .tokens = rows}, Precision::fp32,
             {.r = rank, .alpha = scale * rank, .target_modules = {"q_proj", "v_proj"}, .dropout = dropout})
      .value();
}

struct When {
  u64 step = 3;
  u32 micro_batch = 1;
  bool training = true;
};

class AdapterDropout : public ::testing::Test {
 protected:
  BlockContext context(const ModelGraph& graph, const When& when) {
    return {.kernels = *kernels_,
            .graph = graph,
            .block = layer_block,
            .seed = 7,
            .step = when.step,
            .micro_batch = when.micro_batch,
            .training = when.training};
  }

  // RETURNS: the output of a module's adapter alone, added to zeros.
  std::vector<float> added(FusedModules module, double dropout, const When& when = {}) {
    const ModelGraph graph = graph_with(dropout);
    const BlockContext c = context(graph, when);
    WorkspaceCutter measure(nullptr);
    (void)adapter_scratch(graph, measure);
    FrameBuffer memory(measure.bytes().value);
    WorkspaceCutter layout(memory.get());
    const std::byte* windows[] = {nullptr, bytes_of(window_)};
    const LinearModules modules = LayerTensors(graph.config, 0).modules();
    const Adapters adapters(c, modules, windows, adapter_scratch(graph, layout));
    std::vector<float> y(rows * width);
    adapters.add_to(module, ConstValues(x_.data()), Values(y.data()));
    EXPECT_TRUE(kernels_->finish());
    return y;
  }

  // The same, one number after the other.
  std::vector<float> expected(FusedModules module, double dropout, const When& when = {}) {
    const ModelGraph graph = graph_with(dropout);
    const Window& window = graph.windows[graph.blocks[layer_block].windows[1]];
    const u32 a_index = module.first == q_proj.first ? 0 : 2;
    const float *a = window_.data() + window.tensors[a_index].window_offset,
                *b = window_.data() + window.tensors[a_index + 1].window_offset;
    std::vector<float> seen(x_.size());
    dropout_row(dropout_of_adapter(context(graph, when), module.first, dropout), 0, x_.data(), seen.data(),
                x_.size());
    std::vector<float> y(rows * width);
    for (u32 row = 0; row < rows; ++row) {
      for (u32 n = 0; n < width; ++n) {
        double sum = 0;
        for (u32 k = 0; k < rank; ++k)
          for (u32 i = 0; i < width; ++i)
            sum += double{seen[row * width + i]} * a[k * width + i] * b[n * rank + k];
        y[row * width + n] = static_cast<float>(scale * sum);
      }
    }
    return y;
  }

  const std::unique_ptr<CorePool> pool_ = make_pool(2);
  const std::unique_ptr<Kernels> kernels_ = create_cpu_kernels(*pool_);
  const std::vector<float> x_ = random_floats(rows * width, 1), window_ = random_floats(65536, 2, 0.3f);
};

TEST_F(AdapterDropout, DropsAndScalesWhatGoesIn) {
  for (const FusedModules module : {q_proj, v_proj}) {
    const auto y = added(module, 0.5), want = expected(module, 0.5);
    for (u32 i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-4) << i;
    EXPECT_NE(y, added(module, 0));
  }
}

TEST_F(AdapterDropout, IsEachModulesOwnAndOfStepAndMicroBatch) {
  const ModelGraph graph = graph_with(0.5);
  const auto kept = [&](const Dropout& dropout) {
    std::vector<float> ones(256, 1.0f), out(256);
    dropout_row(dropout, 0, ones.data(), out.data(), out.size());
    return out;
  };
  const BlockContext c = context(graph, {});
  EXPECT_NE(kept(dropout_of_adapter(c, 0, 0.5)), kept(dropout_of_adapter(c, 2, 0.5)));
  BlockContext next_layer = c;
  next_layer.block = layer_block - 1;
  EXPECT_NE(kept(dropout_of_adapter(c, 0, 0.5)), kept(dropout_of_adapter(next_layer, 0, 0.5)));
  for (const DropoutSite site :
       {DropoutSite::attention, DropoutSite::after_attention, DropoutSite::after_mlp})
    EXPECT_NE(kept(dropout_of_adapter(c, 0, 0.5)), kept(dropout_of(c, site, 0.5)));
  EXPECT_NE(added(q_proj, 0.5), added(q_proj, 0.5, {.step = 4}));
  EXPECT_NE(added(q_proj, 0.5), added(q_proj, 0.5, {.micro_batch = 2}));
}

TEST_F(AdapterDropout, IsOffOutsideTraining) {
  EXPECT_EQ(added(v_proj, 0.5, {.training = false}), added(v_proj, 0));
}

}  // namespace tidepool::test::adapter_dropout_test
