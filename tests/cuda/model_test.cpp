// Runs a whole model on a device, block by block, against the CPU: kernels get arguments from blocks, with
// their order and overlaps of memory.
#include <optional>

#include "kernels/kernels_cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/gpu_precision.h"
#include "tests/support/model_runner.h"

namespace tidepool::test::model_test {

constexpr BatchShape batch = {.sequences = 2, .tokens = 40};

// A frame on the device, full of NaN like the host's. Managed memory, because the runner accesses it as it
// does the host's.
class DeviceFrame {
 public:
  explicit DeviceFrame(u64 bytes) {
    bytes = std::max<u64>(bytes, 64);
#ifdef CUDA_EMULATED
    EXPECT_EQ(cudaMalloc(&base_, bytes), cudaSuccess);
#else
    EXPECT_EQ(cudaMallocManaged(&base_, bytes), cudaSuccess);
#endif
    std::memset(base_, 0xff, bytes);
  }
  DeviceFrame(const DeviceFrame&) = delete;
  ~DeviceFrame() { EXPECT_EQ(cudaFree(base_), cudaSuccess); }
  std::byte* get() const { return base_; }
  float* floats() const { return reinterpret_cast<float*>(base_); }

 private:
  std::byte* base_ = nullptr;
};

struct ModelCase {
  Precision parameters, activations;
  u32 head_size;
  double loss_tolerance, gradient_tolerance;  // relative
  Family family = Family::gpt2;               // for other families than gpt2, documents are packed
  u32 lora = 0;                               // rank of adapters beside the model, which is then frozen
  bool branches = false;                      // experts beside the dense MLP
};
std::ostream& operator<<(std::ostream& out, const ModelCase& c) {
  if (c.family != Family::gpt2) out << name(c.family) << "_";
  if (c.branches) out << "branches_";
  if (c.lora != 0) out << "lora_";
  return out << name(c.parameters) << "_inside_" << name(c.activations) << "_d" << c.head_size;
}

struct Losses {
  std::vector<double> of_micro_batch;
  double evaluated = 0;
  std::vector<float> gradients;  // sum over micro-batches
  RouterLosses router;
  std::vector<i64> expert_tokens;
};

class CudaModelTest : public CudaTest, public testing::WithParamInterface<ModelCase> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!gpu_multiplies(GetParam().activations)) GTEST_SKIP() << "this GPU does not multiply bf16";
  }
  static ModelConfig config() {
    if (GetParam().family != Family::gpt2) {
      ModelConfig c = default_model(GetParam().family);
      c.vocab_size = 131, c.positions = 64, c.width = 3 * GetParam().head_size, c.layers = 2,
      c.attention.heads = 4;
      c.attention.kv_heads_given = 2, c.softmax.head_size_given = GetParam().head_size,
      c.mlp.inner_given = 56, c.attention.dropout = 0.2;
      if (c.family == Family::phi3) c.attention.rope.partial_factor = 0.5;
      if (c.family == Family::gemma3_text) {
        c.softmax.sliding_window_pattern = 2, c.softmax.sliding_window = 9, c.softmax.scale_given = 10;
      }
      if (traits(c.family).global_sizes_key) {
        c.softmax.sliding_window_pattern = 2, c.softmax.sliding_window = 9;
        c.softmax.global_head_size = 2 * GetParam().head_size, c.softmax.global_kv_heads = 1;
        c.softmax.keys_are_values = true;
        c.layer_inputs.width = GetParam().head_size;
        c.layers = 4, c.softmax.shared_layers = 2, c.mlp.double_wide = true;
      }
      if (c.experts.count != 0 || GetParam().branches) add_experts(c);
      if (traits(c.family).delta_layers)
        c.delta = {.key_heads = 2,
                   .value_heads = 4,
                   .key_head_dim = 8,
                   .value_head_dim = 16,
                   .attention_interval = 2};
      if (!traits(c.family).layer_kinds.empty()) add_mamba(c);
      return c;
    }
    return {.vocab_size = 131,
            .positions = 64,
            .width = 2 * GetParam().head_size,
            .layers = 2,
            .attention = {.heads = 2, .dropout = 0.2},
            .embedding_dropout = 0.1,
            .residual_dropout = 0.1};
  }
  // Layers of one part: one of each kind.
  static void add_mamba(ModelConfig& c) {
    c.mamba.heads = 6, c.mamba.head_dim = c.width / 3, c.mamba.groups = 2, c.mamba.state_size = 8;
    c.experts.shared_width = 40;
    if (style(c.family).one_part)
      c.layers = 4;
    else
      c.layer_kinds = "M*";
  }
  // In 16 bits every token has all experts: near a tie, rounding would change the choice.
  static void add_experts(ModelConfig& c) {
    c.experts.count = 6, c.experts.chosen = GetParam().activations == Precision::fp32 ? 2 : 6;
    c.experts.inner_given = traits(c.family).experts->inner_key ? 20 : 0;
    c.experts.balance = traits(c.family).experts->balance_keys, c.experts.balance_factor = 0.5;
    if (c.family == Family::qwen3_moe) c.experts.z_factor = 1e-2;
    if (c.family == Family::gpt_oss) c.softmax.sliding_window = 9;
    if (c.family != Family::deepseek_v3) return;
    c.attention.kv_heads_given = 0, c.softmax.head_size_given = 0;
    c.latent = {.q_lora_rank = 20,
                .kv_lora_rank = 16,
                .qk_nope_head_dim = 16,
                .qk_rope_head_dim = 8,
                .v_head_dim = 12};
    c.experts.groups = 3, c.experts.chosen_groups = c.experts.chosen == 2 ? 2 : 3, c.experts.scale = 2.5;
  }
  static ModelGraph graph(Precision activations) {
    BatchShape shape = batch;
    shape.packed = GetParam().family != Family::gpt2;
    return build_model(config(), GetParam().parameters, shape, activations,
                       {.r = GetParam().lora, .dropout = 0.1})
        .value();
  }

  // Scores have no factor: that of a head's root is in the weights of q's norm, as in trained models.
  template <class Runner>
  static void soften(Runner& model) {
    for (u32 w = 0; w < model.weights.size(); ++w)
      for (const Tensor& t : model.graph().windows[w].tensors)
        if (t.name.ends_with("q_norm.weight"))
          for (u64 i = 0; i < t.elements; ++i) model.weights[w][t.window_offset + i] /= 4;
    model.upload();
  }

  // keep: saves the inside of layers for both micro-batches; otherwise backward recomputes it.
  template <class Runner>
  static Losses run(Runner& model, const i32* tokens, const i32* targets, const i32* starts, bool keep) {
    model.init(5, 5.0f);
    if (traits(GetParam().family).global_sizes_key) soften(model);
    Losses out;
    for (u32 m = 0; m < 2; ++m) {
      out.of_micro_batch.push_back(
          model.forward_backward(tokens, targets, 1.0 / 200, {.keep = keep, .starts = starts}, m));
    }
    out.gradients = model.all_gradients();
    out.router = model.router_losses(), out.expert_tokens = model.expert_tokens();
    out.evaluated = model.loss(tokens, targets, {.training = false, .starts = starts});
    return out;
  }

  Losses run_on_device(bool keep) {
    const DeviceArray workspace(cuda_kernels_workspace.value);
    const DeviceArray tokens(tokens_.data(), tokens_.size() * 4),
        targets(targets_.data(), targets_.size() * 4), starts(starts_.data(), starts_.size() * 4);
    BasicModelRunner<DeviceFrame> model(
        graph(GetParam().activations),
        std::move(create_cuda_kernels({.stream = stream_, .workspace = {workspace.data(), workspace.bytes()}})
                      .value()
                      .kernels));
    return run(model, tokens.as<i32>(), targets.as<i32>(), packed() ? starts.as<i32>() : nullptr, keep);
  }

  CudaModelTest() {
    std::mt19937 random(3);
    for (u64 i = 0; i < batch.rows(); ++i) {
      tokens_.push_back(static_cast<i32>(random() % 131));
      const u64 place = i % batch.tokens;
      const bool padding = i >= batch.tokens && place >= 33;  // the end of the last sequence
      targets_.push_back(padding      ? padding_target
                         : i % 9 == 4 ? ignored_target
                                      : static_cast<i32>(random() % 131));
      starts_.push_back(place < 17 ? 0 : padding ? static_cast<i32>(place) : 17);
    }
  }
  static bool packed() { return GetParam().family != Family::gpt2; }

  std::vector<i32> tokens_, targets_, starts_;
};

TEST_P(CudaModelTest, AgreesWithTheCpusModel) {
  const ModelCase c = GetParam();
  const auto pool = make_pool(2);
  ModelRunner on_host(graph(Precision::fp32), *pool);
  const Losses want =
      run(on_host, tokens_.data(), targets_.data(), packed() ? starts_.data() : nullptr, true);
  const Losses got = run_on_device(true);
  for (u32 m = 0; m < 2; ++m) {
    EXPECT_NEAR(got.of_micro_batch[m], want.of_micro_batch[m], c.loss_tolerance * want.of_micro_batch[m]);
  }
  EXPECT_EQ(got.expert_tokens, want.expert_tokens);
  for (const auto part : {&RouterLosses::balance, &RouterLosses::z, &RouterLosses::entropy})
    EXPECT_NEAR(got.router.*part, want.router.*part, 10 * c.loss_tolerance * want.router.*part);
  EXPECT_NEAR(got.evaluated, want.evaluated, c.loss_tolerance * want.evaluated);
  EXPECT_LE(relative_error(got.gradients, want.gradients), c.gradient_tolerance);
  for (const float g : got.gradients) ASSERT_TRUE(std::isfinite(g));  // padding included
}

TEST_P(CudaModelTest, RecomputeChangesNoBit) {
  const Losses kept = run_on_device(true), made_again = run_on_device(false);
  EXPECT_EQ(kept.of_micro_batch, made_again.of_micro_batch);
  EXPECT_TRUE(same_bits(kept.gradients, made_again.gradients));
}

// bf16: each of some 20 arrays between the tokens and a gradient is rounded by up to 2^-9 of its value.
INSTANTIATE_TEST_SUITE_P(
    Precisions, CudaModelTest,
    testing::Values(ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2},
                    ModelCase{Precision::bf16, Precision::fp32, 12, 1e-6, 1e-5},
                    ModelCase{Precision::fp16, Precision::fp16, 16, 2e-4, 4e-3},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::llama},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::qwen3},
                    ModelCase{Precision::fp16, Precision::fp16, 16, 2e-4, 4e-3, Family::qwen2},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::phi3},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::gemma3_text},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::gemma4_text},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 5e-2, Family::gemma4_text},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 5e-2, Family::gemma4_text, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::gemma4_text, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::gemma4_text, 0, true},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 5e-2, Family::gemma4_text, 0, true},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::gemma4_text, 5, true},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::gemma3_text, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::gpt2, 5},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::gpt2, 8},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::llama, 5},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::qwen3, 8},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::qwen3_moe},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::qwen3_moe},
                    ModelCase{Precision::bf16, Precision::fp32, 12, 1e-6, 1e-5, Family::mixtral},
                    ModelCase{Precision::fp16, Precision::fp16, 16, 2e-4, 4e-3, Family::mixtral},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::gpt_oss},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::gpt_oss},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::deepseek_v3},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 2e-2, Family::deepseek_v3},
                    ModelCase{Precision::fp32, Precision::fp32, 12, 1e-6, 1e-5, Family::qwen3_moe, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::qwen3_next},
                    // A gated delta rule brings small q, k and outputs to length 1, with their rounding.
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 4e-2, Family::qwen3_5_text},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::qwen3_5_moe_text, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::nemotron_h},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 4e-2, Family::nemotron_h, 5},
                    ModelCase{Precision::fp32, Precision::fp32, 16, 1e-6, 1e-5, Family::granitemoehybrid, 5},
                    ModelCase{Precision::bf16, Precision::bf16, 16, 1e-3, 4e-2, Family::granitemoehybrid}),
    testing::PrintToStringParamName());

}  // namespace tidepool::test::model_test
