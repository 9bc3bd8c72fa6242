// Loss and gradients of a tiny GPT-2 against PyTorch's, from the committed golden file.
#include "huggingface/weights/load_weights.h"
#include "tests/support/model_runner.h"
#include "tests/support/places.h"
#include "tests/support/safetensors.h"

namespace tidepool::test::pytorch_test {

constexpr ModelConfig tiny = {
    .vocab_size = 67, .positions = 32, .width = 48, .layers = 2, .attention = {.heads = 3}};

class Pytorch : public testing::Test {
 protected:
  Safetensors golden{source_file("tests/golden/pytorch/gpt2_tiny.safetensors")};
  std::unique_ptr<CorePool> pool = make_pool(2);
  ModelRunner model{build_model(tiny, Precision::fp32, {.sequences = 3, .tokens = 24}).value(), *pool};

  void load_weights() {
    for (u32 w = 0; w < model.weights.size(); ++w) {
      for (const Tensor& t : model.graph().windows[w].tensors) {
        const auto values = golden.get<float>("weights/" + t.name);
        ASSERT_EQ(values.size(), t.elements) << t.name;
        std::copy(values.begin(), values.end(), model.weights[w].begin() + i64(t.window_offset));
      }
    }
    model.upload();
  }
};

// q, k and v biases apart: their gradients differ by orders of magnitude, and k's is truly zero.
std::map<std::string, std::vector<float>> split_qkv(std::map<std::string, std::vector<float>> gradients) {
  std::map<std::string, std::vector<float>> out;
  for (auto& [name, g] : gradients) {
    if (!name.ends_with("c_attn.bias")) {
      out[name] = g;
      continue;
    }
    const i64 h = i64(g.size() / 3);
    out[name + ".q"] = {g.begin(), g.begin() + h};
    out[name + ".v"] = {g.begin() + 2 * h, g.end()};
  }
  return out;
}

TEST_F(Pytorch, LossAndGradientsAgree) {
  load_weights();
  const auto tokens = golden.get<i32>("tokens"), targets = golden.get<i32>("targets");
  const u64 rows = model.graph().batch.rows();
  const auto valid =
      u64(std::count_if(targets.begin(), targets.begin() + i64(rows), [](i32 t) { return t >= 0; }));
  const double loss = model.forward_backward(tokens.data(), targets.data(), 1.0 / double(valid));
  EXPECT_NEAR(loss / double(valid), golden.get<double>("loss")[0], 1e-5);

  std::map<std::string, std::vector<float>> want;
  const auto got = model.gradients();
  for (const auto& [name, unused] : got) want[name] = golden.get<float>("gradients/" + name);
  const auto got_split = split_qkv(got);
  for (const auto& [name, g] : split_qkv(want)) {
    EXPECT_LE(relative_error(got_split.at(name), g), 1e-5) << name;
  }
}

}  // namespace tidepool::test::pytorch_test
