// GPT-2's windows, sizes and what is refused.
#include <gmock/gmock.h>

#include "model/blocks.h"

namespace tidepool {
namespace {

constexpr BatchShape batch = {.sequences = 2, .tokens = 128};

TEST(Gpt2Graph, HasTheParametersOfGpt2) {
  const ModelGraph g = build_gpt2({.vocab_size = 50257}, Precision::fp32, {.sequences = 1, .tokens = 1024}).value();
  EXPECT_EQ(g.parameters, 124'439'808u);
  EXPECT_EQ(g.windows.size(), 15u);
  EXPECT_EQ(g.blocks.size(), 14u);
  EXPECT_EQ(g.windows[2].tensors[2].name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(g.windows[2].tensors[2].shape, (std::vector<u64>{768, 2304}));
  EXPECT_EQ(g.windows[14].name, "ln_f");
  EXPECT_EQ(g.blocks[13].windows, (std::vector<u32>{14, 0}));
  EXPECT_EQ(g.flops_per_token, 6 * g.parameters + u64{12} * 12 * 768 * 1024);
}

TEST(Gpt2Graph, TensorsLieAlignedAndApart) {
  const ModelGraph g = build_gpt2({.vocab_size = 67, .n_embd = 30, .n_layer = 2, .n_head = 3}, Precision::bf16, batch)
                           .value();
  for (const Window& w : g.windows) {
    u64 end = 0;
    for (const Tensor& t : w.tensors) {
      EXPECT_EQ(t.window_offset % 64, 0u);
      EXPECT_GE(t.window_offset, end);
      EXPECT_EQ(t.weight_decay, t.shape.size() == 2) << t.name;
      end = t.window_offset + t.elements;
    }
    EXPECT_GE(w.elements, end);
    EXPECT_EQ(w.elements % cut_alignment_elements, 0u);
  }
}

TEST(Gpt2Graph, ResidualProjectionsStartSmaller) {
  const ModelGraph g = build_gpt2({.n_layer = 8}, Precision::fp32, batch).value();
  for (const Tensor& t : g.windows[2].tensors) {
    if (t.init != Init::normal) continue;
    EXPECT_DOUBLE_EQ(t.init_std, t.name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02) << t.name;
  }
}

TEST(Gpt2Graph, SizesAreWholePages) {
  const ModelGraph g = build_gpt2({}, Precision::fp32, batch).value();
  for (const Block& b : g.blocks) {
    for (Bytes bytes : {b.kept, b.forward_workspace, b.backward_workspace}) {
      EXPECT_EQ(bytes.value % frame_alignment, 0u) << b.name;
    }
    EXPECT_GT(b.backward_flops, 0u);
  }
  EXPECT_GE(g.boundary.value, batch.rows() * 768 * 4);
}

TEST(Gpt2Graph, ActivationsOfSixteenBitsTakeHalf) {
  const ModelGraph wide = build_gpt2({}, Precision::bf16, batch).value();
  const ModelGraph narrow = build_gpt2({}, Precision::bf16, batch, Precision::bf16).value();
  EXPECT_EQ(narrow.boundary.value * 2, wide.boundary.value);
  for (u32 b = 1; b < wide.blocks.size(); ++b) {
    // Statistics of rows (lse, mean, rstd) and partial sums stay fp32.
    EXPECT_LT(narrow.blocks[b].kept.value, wide.blocks[b].kept.value * 0.52 + 1) << wide.blocks[b].name;
    EXPECT_LT(narrow.blocks[b].backward_workspace.value, wide.blocks[b].backward_workspace.value * 0.56);
  }
  EXPECT_EQ(narrow.windows, wide.windows);
}

std::string refusal(const Gpt2Config& config, BatchShape shape = batch) {
  const auto result = build_gpt2(config, Precision::fp32, shape);
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
  return result.error().message;
}

TEST(Gpt2Graph, RefusesWhatCannotBe) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal({.n_embd = 100, .n_head = 3}), HasSubstr("model.n_head"));
  EXPECT_THAT(refusal({.n_positions = 64}), HasSubstr("model.n_positions (64)"));
  EXPECT_THAT(refusal({.vocab_size = 0}), HasSubstr("model.vocab_size"));
  EXPECT_THAT(refusal({.n_layer = 0}), HasSubstr("model.n_layer"));
  EXPECT_THAT(refusal({.n_head = 1}), HasSubstr("raise model.n_head"));
  EXPECT_THAT(refusal({.attn_pdrop = 1.0}), HasSubstr("model.attn_pdrop"));
  EXPECT_THAT(refusal({}, {.sequences = 0, .tokens = 8}), HasSubstr("per_device_train_batch_size"));
  EXPECT_THAT(refusal({}, {.sequences = 1 << 20, .tokens = 1024}), HasSubstr("gradient_accumulation_steps"));
}

}  // namespace
}  // namespace tidepool
