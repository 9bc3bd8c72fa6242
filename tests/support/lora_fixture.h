// Prepares LoRA runs on a small base model that another run has trained.
#pragma once

#include <filesystem>

#include "tests/support/train_fixture.h"

namespace tidepool::test {

// Trains one step.
// RETURNS: the resulting model directory, `dir`/base/checkpoint-1.
inline std::string made_base(const TrainDir& dir, const ModelConfig& model) {
  Config c = small_config(dir, "base");
  c.model = model;
  if (model.experts.count != 0 && !traits(model.family).experts->switch_key.empty())
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  c.train.max_steps = 1;
  const std::string made = c.output.dir + "/checkpoint-1";
  if (std::filesystem::exists(made)) return made;
  const auto report = run(c);
  EXPECT_TRUE(report) << report.error().message;
  return made;
}

inline std::string made_base(const TrainDir& dir, Family family) {
  return made_base(dir, small_model(family));
}

inline Config lora_config(Config c, const std::string& base) {
  c.model_directory = base;
  c.lora = {.r = 4, .alpha = 16};
  c.train.learning_rate = 2e-2;
  return c;
}

}  // namespace tidepool::test
