// Whole training runs of a small GPT on generated text, each in a directory of its own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/schema.h"
#include "run/trainer.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::test {

// RETURNS: words in an order that a seed decides: text from which a small model can learn something.
inline std::string made_up_text(u64 bytes) {
  constexpr const char* words[] = {"the ", "tide ",  "pool ",  "fills ",     "and ", "empties, ",
                                   "as ",  "water ", "does. ", "so ",        "we ",  "wait ",
                                   "by ",  "rocks ", "until ", "it turns.\n"};
  std::string text;
  for (u64 z = 1; text.size() < bytes;) {
    z = z * 6364136223846793005 + 1442695040888963407;
    text += words[z >> 60];
  }
  return text;
}

// Sets fp16 with a loss scale that is too high again and again: about every third step overflows.
inline void make_fp16_that_overflows(Config& c) {
  c.train.precision = Precision::fp16;
  c.train.init_scale = 0x1p24;
  c.train.backoff_factor = 0x1p-10;
  c.train.growth_factor = 0x1p11;
  c.train.growth_interval = 2;
}

// A directory on a real disk (swap files are refused on tmpfs) that contains the data.
class TrainDir {
 public:
  TrainDir() { std::ofstream(data()) << made_up_text(20'000); }
  std::string data() const { return dir_ / "data.txt"; }
  std::string operator/(const std::string& name) const { return dir_ / name; }

 private:
  test::ScratchDir dir_;
};

// Writes token ids of 0 to 52 to a file of uint16, for the small models of vocabulary 53 that other tools
// made.
inline std::string token_file(const TrainDir& dir) {
  const std::string path = dir / "tokens.bin";
  std::ofstream file(path, std::ios::binary);
  for (u32 i = 0; i < 4000; ++i) {
    const u16 token = static_cast<u16>(i * i % 53);
    file.write(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return path;
}

// RETURNS: the width inside MLPs; of experts, in families that have no others.
inline u32& inner_width(ModelConfig& m) {
  const ExpertTraits* e = traits(m.family).experts;
  const bool dense =
      e == nullptr || !e->inner_key || e->step_keys || e->group_keys || e->tensors.are_branch();
  return dense ? m.mlp.inner_given : m.experts.inner_given;
}

// Makes equally small models of every family: grouped queries; heads of Qwen3 wider than their share of the
// width; heads of Phi-3 that are rotated in part; windows in the first two layers of three, where families
// have them; attention in the second layer of Qwen's hybrids and Granite's, and in the third of Nemotron-H's,
// whose second has experts.
inline ModelConfig small_model(Family family) {
  ModelConfig m = default_model(family);
  m.vocab_size = 256, m.positions = 32, m.width = 64, m.layers = 3, m.attention.heads = 4;
  if (family == Family::gpt2) return m;
  inner_width(m) = 128, m.attention.kv_heads_given = 2;
  if (family == Family::qwen3) m.softmax.head_size_given = 24, m.tied = true;
  if (family == Family::phi3) m.attention.rope.partial_factor = 0.75;
  if (family == Family::gemma3_text) m.softmax.scale_given = 24;
  if (traits(family).delta_layers) {
    m.softmax.head_size_given = 24, m.attention.rope.partial_factor = 0.5;
    m.delta = {
        .key_heads = 2, .value_heads = 4, .key_head_dim = 8, .value_head_dim = 12, .attention_interval = 2};
    if (m.experts.count != 0) m.experts.shared_width = 24, m.experts.balance = true;
  }
  if (style(family).mixer == MixerKind::latent) {
    m.attention.kv_heads_given = m.attention.heads;
    m.latent = {.q_lora_rank = 24,
                .kv_lora_rank = 16,
                .qk_nope_head_dim = 16,
                .qk_rope_head_dim = 8,
                .v_head_dim = 12};
  }
  if (m.experts.count != 0 && traits(family).experts->group_keys)
    m.experts.groups = 4, m.experts.chosen_groups = 2, m.experts.scale = 2.5;
  const FamilyTraits& t = traits(family);
  if (!t.layer_kinds.empty()) {
    m.mamba.heads = 4, m.mamba.head_dim = 32, m.mamba.groups = 2, m.mamba.state_size = 8;
    m.experts.shared_width = 40;
    if (!style(family).one_part) m.layer_kinds = "M*M";
  }
  if (t.window == WindowKind::by_layer) m.softmax.sliding_window = 12, m.softmax.sliding_window_pattern = 3;
  if (t.attention_cap_key) m.softmax.scale_given = 24, m.softmax.soft_cap = 0.5;
  if (t.logits_cap_key) m.final_soft_cap = 4;
  if (t.global_sizes_key)
    m.softmax.global_head_size = 24, m.softmax.global_kv_heads = 1, m.softmax.keys_are_values = true,
    m.layer_inputs = {.width = 6, .vocab_size_given = 261}, m.layers = 6, m.softmax.shared_layers = 3,
    m.mlp.double_wide = true;
  if (t.no_rope_key) m.softmax.no_rope_interval = 2;
  if (t.query_growth_key) m.attention.rope.original_positions = 9;
  if (t.alpha_key) m.attention.rope.type = RopeType::dynamic, m.attention.rope.alpha = 40;
  if (t.factor_keys)
    m.softmax.score_factor = 0.2, m.factors = {.embedding = 3, .residual = 0.4, .logits_divisor = 2};
  if (family == Family::qwen3_moe) m.experts.balance = true, m.experts.z_factor = 1e-3;
  return m;
}

// Gemma 4 with experts beside the dense MLP.
inline ModelConfig small_model_with_branches() {
  ModelConfig m = small_model(Family::gemma4_text);
  m.experts.count = 8, m.experts.chosen = 2, m.experts.inner_given = 24;
  return m;
}

// 3 layers, 160k parameters, 2.5 MiB of state in fp32: a run of a few steps takes well below a second.
inline Config small_config(const TrainDir& dir, const std::string& run = "run") {
  Config c;
  c.model = small_model(Family::gpt2);
  c.data.train = {dir.data()};
  c.train.precision = Precision::fp32;
  c.train.max_steps = 4;
  c.train.per_device_train_batch_size = 2;
  c.train.sequence_length = 32;
  c.train.learning_rate = 5e-3;
  c.train.weight_decay = 0.1;
  c.train.eval_batches = 5;  // not a multiple of an evaluation segment's batches
  c.memory.budgets = {Bytes{16 * mib}, Bytes{16 * mib}, Bytes{64 * mib}};
  c.machine.threads = 2;
  c.output.dir = dir / run;
  return c;
}

// RETURNS: the differences from the small config, as a user would type them.
inline std::string overrides_of(Config config) {
  const Config plain{.model = default_model(config.model.family)};
  std::string text;
  if (config.model.family != Family::gpt2) text += fmt::format("model_type={} ", name(config.model.family));
  for (const Field& field : schema()) {
    if (!applies(field, config.model.family)) continue;
    const std::string value = value_yaml(field, config);
    if (value != value_yaml(field, plain)) text += fmt::format("{}.{}={} ", field.section, field.key, value);
  }
  return text;
}

// For SCOPED_TRACE: names the test filter, and the command line that repeats the run.
inline std::string how_to_repeat(const Config& config) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("repeat with --gtest_filter={}.{}; this run: tidepool train CONFIG {}",
                     info->test_suite_name(), info->name(), overrides_of(config));
}

struct RunRequest {
  std::string resume;
  u64 stop_after = 0;
  SpeculationChoice::Patience speculation;
};

inline Result<RunReport> run(const Config& config, const RunRequest& request = {}) {
  return train_model({.config = config,
                      .resume = request.resume,
                      .command = "test",
                      .quiet = true,
                      .stop_after = request.stop_after,
                      .speculation = request.speculation});
}

// RETURNS: the word after `before`, as a reader of the message would copy it.
inline std::string word_after(const std::string& message, const std::string& before) {
  const size_t at = message.find(before);
  EXPECT_NE(at, std::string::npos) << message;
  if (at == std::string::npos) return "";
  std::string word = message.substr(at + before.size());
  word = word.substr(0, word.find(' '));
  while (word.ends_with(',') || word.ends_with(';')) word.pop_back();
  return word;
}

// Results that placement, faults and stops must not change.
struct Numbers {
  std::vector<double> losses, eval_losses;
  std::string weights_xxh3;
  double loss_scale = 0;  // fp16
  u64 skipped_steps = 0;
  bool operator==(const Numbers&) const = default;
};

inline Numbers numbers_of(const RunReport& report) {
  return {report.losses, report.eval_losses, report.weights_xxh3, report.loss_scale, report.skipped_steps};
}

inline void PrintTo(const Numbers& n, std::ostream* out) {
  *out << "weights " << n.weights_xxh3 << ", losses";
  for (const double loss : n.losses) *out << fmt::format(" {:.17g}", loss);
  *out << ", eval";
  for (const double loss : n.eval_losses) *out << fmt::format(" {:.17g}", loss);
}

// Fails the test on an error; the numbers are then empty.
inline Numbers train_numbers(const Config& config, const RunRequest& request = {}) {
  const auto report = run(config, request);
  EXPECT_TRUE(report) << report.error().message;
  return report ? numbers_of(*report) : Numbers{};
}

}  // namespace tidepool::test
