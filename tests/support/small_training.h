// A small GPT or Qwen3 that trains for four steps in an executor, and what such a run ends in.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "engine/engine.h"
#include "executor/shared/training_executor.h"
#include "model/blocks.h"
#include "tests/support/adamw_state.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

inline constexpr u64 steps = 4;
inline constexpr Bytes roomy{64 * mib};

// fp16: step 1 overflows, steps 2 and 3 do not and raise the scale, step 4 overflows.
inline constexpr float first_scale = 0x1p24f;
inline constexpr LossScaling scaling{
    .growth_factor = 0x1p11f, .backoff_factor = 0x1p-10f, .growth_interval = 2};

// Matrices of layers by Muon, one whole matrix after the other; vectors by SGD; embeddings by AdamW.
inline std::vector<UpdateRule> several_rules() {
  const auto is_matrix = [](const Tensor& t) { return t.shape.size() > 1 && t.name.starts_with("h."); };
  const auto is_vector = [](const Tensor& t) { return t.shape.size() == 1; };
  return {
      {.optim = Optim::muon, .unit = UnitKind::tensor, .place = UpdatePlace::streamed, .takes = is_matrix},
      {.optim = Optim::sgd, .takes = is_vector},
      {.optim = Optim::adamw_torch}};
}

inline ModelGraph small_gpt(Precision precision, std::vector<UpdateRule> rules = {UpdateRule{}},
                            u32 layers = 3) {
  ModelConfig config{.vocab_size = 97,
                     .positions = 32,
                     .width = 64,
                     .layers = layers,
                     .attention = {.heads = 4},
                     .embedding_dropout = 0.1,
                     .residual_dropout = 0.1};
  return build_model(config, precision, {.sequences = 2, .tokens = 32}, Precision::fp32, {}, 0,
                     std::move(rules))
      .value();
}

struct Training {
  Precision precision{};
  bool several_rules = false;
};
inline ModelGraph small_gpt(const Training& training) {
  // Units of whole matrices are padded to many times their size here: one layer is enough.
  return training.several_rules ? small_gpt(training.precision, several_rules(), 1)
                                : small_gpt(training.precision);
}
inline std::string name(const Training& training) {
  return std::string(name(training.precision)) + (training.several_rules ? "_several_rules" : "");
}
inline auto all_trainings() {
  using enum Precision;
  return ::testing::Values(Training{fp32}, Training{bf16}, Training{fp16}, Training{fp32, true},
                           Training{bf16, true}, Training{fp16, true});
}

inline ModelGraph small_qwen3(bool packed) {
  ModelConfig config = default_model(Family::qwen3);
  config.vocab_size = 97, config.positions = 32, config.width = 64, config.layers = 3,
  config.attention.heads = 4;
  config.attention.kv_heads_given = 2, config.softmax.head_size_given = 24, config.mlp.inner_given = 96;
  return build_model(config, Precision::fp32, {.sequences = 2, .tokens = 32, .packed = packed}).value();
}

// Weights from a hash of their name and place: 0.05 at most; weights of norms are one.
inline float initial(const Tensor& tensor, u64 element) {
  if (tensor.init == Init::ones) return 1.0f;
  if (tensor.init == Init::zeros) return 0.0f;
  u64 z = element;
  for (const char c : tensor.name) z = z * 7919 + static_cast<u8>(c);
  z *= 0x9e3779b97f4a7c15;
  z ^= z >> 29;
  z *= 0xbf58476d1ce4e5b9;
  return (static_cast<float>(z >> 40) / 16777216.0f - 0.5f) * 0.1f;
}

inline std::vector<float> initial_window(const Window& window) {
  std::vector<float> out(window.elements);
  for (const Tensor& tensor : window.tensors) {
    for (u64 i = 0; i < tensor.elements; ++i) out[tensor.window_offset + i] = initial(tensor, i);
  }
  return out;
}

inline std::vector<std::byte> initial_chunk(const Chunk& chunk, const ModelGraph& graph) {
  std::vector<std::byte> out(chunk.bytes.value);
  const bool fp16_master = graph.precision == Precision::fp16 && graph.state_slots.is_master(chunk.kind);
  if (chunk.kind != Kind::param && !fp16_master) return out;  // bf16: drops the remainders
  const std::vector<float> all = initial_window(graph.windows[chunk.window]);
  for (u64 i = 0; i < chunk.elements; ++i) {
    const float x = all[chunk.element_begin + i];
    if (graph.state_slots.bytes(chunk.kind, 1) == 4) {
      std::memcpy(&out[i * 4], &x, 4);
    } else {
      const u16 half = half_of(x, graph.precision);
      std::memcpy(&out[i * 2], &half, 2);
    }
  }
  return out;
}

// Results of a run, independent of chunks: all persistent bytes window by window, kind by kind.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<LossScale> scales;  // after each step
  double eval_loss = 0;
  std::vector<std::byte> state;
  std::array<Bytes, link_count> moved{};
  std::array<Bytes, link_count> planned{};
  Bytes moved_between_devices{}, planned_between_devices{};
  bool operator==(const Outcome& o) const {
    return losses == o.losses && norms == o.norms && scales == o.scales && eval_loss == o.eval_loss &&
           state == o.state;
  }
};

// Takes the result of each step when its norm has completed.
struct ResultTaker final : EngineObserver {
  ResultTaker(TrainingExecutor& executor, Outcome& outcome) : executor(executor), outcome(outcome) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind != OpKind::norm) return;
    const StepResult result = executor.result(issue.step);
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.scales.push_back(result.next_loss_scale);
  }
  TrainingExecutor& executor;
  Outcome& outcome;
};

inline std::vector<std::byte> state_of(const Plan& plan, TrainingExecutor& executor) {
  std::vector<std::byte> all;
  for (const Kind kind : persistent_kinds(plan.state_slots)) {
    for (u32 i = 0; i < plan.chunks.size(); ++i) {
      if (plan.chunks[i].kind != kind) continue;
      std::vector<std::byte> content(plan.chunks[i].bytes.value);
      const auto read = executor.read_home(ChunkId{i}, content);
      EXPECT_TRUE(read) << read.error().message;
      all.insert(all.end(), content.begin(), content.end());
    }
  }
  return all;
}

}  // namespace tidepool::test
