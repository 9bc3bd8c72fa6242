// Documents packed into sequences learn as they would alone: the same loss for each, the same gradients
// together.
#include <cmath>

#include "tests/support/model_runner.h"

namespace tidepool::test::packed_test {

constexpr u32 length = 24;                        // of a packed sequence
constexpr u32 lengths[] = {9, 1, 14, 24, 5, 19};  // packed as {9, 1, 14}, {24}, {5, 19}
constexpr u32 vocabulary = 61;

struct Batch {
  std::vector<i32> tokens, targets, starts;
};

i32 token_of(u32 document, u32 place) {
  return i32((document * 31 + place * place * 7 + place) % vocabulary);
}

void put(Batch& batch, u32 at, u32 document, u32 start) {
  for (u32 i = 0; i < lengths[document]; ++i) {
    batch.tokens[at + i] = token_of(document, i);
    batch.targets[at + i] = i + 1 < lengths[document] ? token_of(document, i + 1) : -100;
    batch.starts[at + i] = i32(start);
  }
}

Batch empty(u32 sequences) {
  const u64 rows = u64{sequences} * length;
  return {std::vector<i32>(rows, 0), std::vector<i32>(rows, -100), std::vector<i32>(rows, 0)};
}

Batch packed() {
  Batch batch = empty(3);
  for (u32 document = 0, at = 0; document < std::size(lengths); at += lengths[document++])
    put(batch, at, document, at % length);
  return batch;
}

// One document alone in each sequence.
Batch unpacked() {
  Batch batch = empty(std::size(lengths));
  for (u32 document = 0; document < std::size(lengths); ++document)
    put(batch, document * length, document, 0);
  return batch;
}

// Only that document's targets.
std::vector<i32> targets_of(const Batch& batch, u32 document, bool is_packed) {
  u32 begin = is_packed ? 0 : document * length;
  for (u32 d = 0; is_packed && d < document; ++d) begin += lengths[d];
  std::vector<i32> out(batch.targets.size(), -100);
  std::copy_n(batch.targets.begin() + begin, lengths[document], out.begin() + begin);
  return out;
}

ModelConfig config_of(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = vocabulary, c.positions = 32, c.width = 32, c.layers = 2, c.attention.heads = 4;
  c.attention.kv_heads_given = 2, c.mlp.inner_given = 48, c.initializer_range = 0.2;
  if (family == Family::gemma3_text) c.softmax.sliding_window = 3;
  if (family == Family::nemotron_h) c.layer_kinds = "M*", c.experts.count = 0;
  return c;
}

class Packed : public testing::TestWithParam<Family> {
 protected:
  std::unique_ptr<CorePool> pool = make_pool(2);
  const ModelConfig config = config_of(GetParam());
  ModelRunner together{
      build_model(config, Precision::fp32, {.sequences = 3, .tokens = length, .packed = true}).value(),
      *pool};
  ModelRunner alone{
      build_model(config, Precision::fp32, {.sequences = std::size(lengths), .tokens = length}).value(),
      *pool};
  const Batch of_all = packed(), of_each = unpacked();

  void SetUp() override {
    together.init(5);
    alone.init(5);
  }
};

TEST_P(Packed, EachDocumentHasTheLossThatItHasAlone) {
  for (u32 document = 0; document < std::size(lengths); ++document) {
    const auto packed_targets = targets_of(of_all, document, true),
               own_targets = targets_of(of_each, document, false);
    const double expected = alone.loss(of_each.tokens.data(), own_targets.data());
    const double got =
        together.loss(of_all.tokens.data(), packed_targets.data(), {.starts = of_all.starts.data()});
    EXPECT_NEAR(got, expected, 1e-5 * std::abs(expected)) << document;
  }
}

TEST_P(Packed, GradientsAreTheSame) {
  for (const bool keep : {true, false}) {
    together.forward_backward(of_all.tokens.data(), of_all.targets.data(), 1.0,
                              {.keep = keep, .starts = of_all.starts.data()});
    alone.forward_backward(of_each.tokens.data(), of_each.targets.data(), 1.0, {.keep = keep});
    const auto expected = alone.gradients();
    for (const auto& [name, gradient] : together.gradients()) {
      double difference = 0, norm = 0;
      for (u64 i = 0; i < gradient.size(); ++i) {
        const double d = double(gradient[i]) - expected.at(name)[i];
        difference += d * d, norm += double(gradient[i]) * gradient[i];
      }
      EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(norm)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Packed,
                         testing::Values(Family::llama, Family::qwen2, Family::qwen3, Family::phi3,
                                         Family::gemma3_text, Family::nemotron_h, Family::granitemoehybrid),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace tidepool::test::packed_test
