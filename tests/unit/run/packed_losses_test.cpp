// A document's loss does not depend on the documents that share its row.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::packed_losses_test {

// A document's ids are a function of its number; `whole`: all of it is learned, otherwise only its last
// token.
std::string record(u32 document, u32 tokens, bool whole) {
  std::string ids, labels;
  for (u32 t = 0; t < tokens; ++t) {
    const u32 id = (document * 37 + t * t * 11 + 5) % 256;
    const bool learned = t > 0 && (whole || t + 1 == tokens);
    ids += fmt::format("{}{}", t == 0 ? "" : ", ", id);
    labels += t == 0 ? "-100" : learned ? fmt::format(", {}", id) : ", -100";
  }
  return fmt::format("{{\"input_ids\": [{}], \"labels\": [{}]}}\n", ids, labels);
}

class PackedLosses : public ::testing::TestWithParam<Family> {
 protected:
  // RETURNS: losses of the steps, one row each; the weights do not change.
  std::vector<double> losses(const std::string& lines, bool packing, u64 steps) {
    Config c = test::small_config(dir_, fmt::format("run{}", ++runs_));
    c.model = test::small_model(GetParam());
    c.model.positions = 128;
    c.model.initializer_range = 0.2;  // makes losses differ between documents
    c.data.train = {dir_ / fmt::format("documents{}.jsonl", runs_)};
    test::write_file(c.data.train[0], lines);
    c.data.packing = packing;
    c.data.shuffle = false;
    c.data.validation_fraction = 0;
    c.train.per_device_train_batch_size = 1;
    c.train.sequence_length = 96;
    c.train.learning_rate = 0;
    c.train.max_steps = steps;
    c.output.save = false;
    c.output.trace = false;
    return test::train_numbers(c).losses;
  }

  test::TrainDir dir_;
  u32 runs_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Families, PackedLosses,
                         ::testing::Values(Family::llama, Family::mistral, Family::qwen2, Family::qwen3,
                                           Family::deepseek_v3),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(PackedLosses, AreThoseOfEachDocumentAlone) {
  const std::vector<u32> tokens = {9, 30, 4, 17, 25};
  const auto lines = [&](auto whole) {
    std::string out;
    for (u32 d = 0; d < tokens.size(); ++d) out += record(d, tokens[d], whole(d));
    return out;
  };
  const std::vector<double> alone = losses(lines([](u32) { return true; }), false, tokens.size());
  const std::vector<double> last = losses(lines([](u32) { return false; }), false, tokens.size());
  ASSERT_EQ(alone.size(), tokens.size());
  ASSERT_EQ(last.size(), tokens.size());
  for (u32 d = 0; d < tokens.size(); ++d) {
    // All documents share one row. The others have one learned token each, whose loss is known alone: the
    // rest of the loss is this document's.
    const std::vector<double> packed = losses(lines([&](u32 other) { return other == d; }), true, 1);
    ASSERT_EQ(packed.size(), 1u);
    const double targets = tokens[d] - 1, others = static_cast<double>(tokens.size()) - 1;
    double sum = packed[0] * (targets + others);
    for (u32 other = 0; other < tokens.size(); ++other)
      if (other != d) sum -= last[other];
    EXPECT_NEAR(sum / targets, alone[d], 1e-5 * alone[d]) << "document " << d;
  }
  EXPECT_GT(std::abs(alone[0] - alone[1]), 1e-3);  // otherwise any row would pass
}

}  // namespace tidepool::packed_losses_test
