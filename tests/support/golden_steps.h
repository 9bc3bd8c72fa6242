// Trains on the batches of a golden file: source of batches, record of each step, distance of two results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "executor/shared/step_results.h"
#include "tests/support/safetensors.h"

namespace tidepool::test {

// RETURNS: norm of the difference over the norm of `expected`.
inline double distance(std::span<const float> got, std::span<const float> expected) {
  EXPECT_EQ(got.size(), expected.size());
  double difference = 0, norm = 0;
  for (u64 i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const double d = double(got[i]) - expected[i];
    difference += d * d;
    norm += double(expected[i]) * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);  // experts without tokens: all zeros
}

// WeightsWriter writes into the fp32 weights of a ModelRunner.
class WeightsWriter final : public StateWriter {
 public:
  explicit WeightsWriter(std::vector<std::vector<float>>& weights) : weights_(weights) {}
  Result<void> write(u32 window, Kind, u64 begin, std::span<const std::byte> bytes) override {
    std::memcpy(weights_[window].data() + begin, bytes.data(), bytes.size());
    return {};
  }
  Result<void> finish() override { return {}; }

 private:
  std::vector<std::vector<float>>& weights_;
};

// GoldenSource serves `tokens` and `targets` of the file, `rows` per step.
class GoldenSource final : public StepSource {
 public:
  // every_step: settings of all steps, except target_tokens.
  GoldenSource(const Safetensors& golden, u64 rows, StepSettings every_step)
      : tokens_(golden.get<i32>("tokens")),
        targets_(golden.get<i32>("targets")),
        rows_(rows),
        every_step_(every_step) {}

  Result<void> load_batch(const BatchRequest& request, const BatchArrays& batch) override {
    const u64 begin = (request.step - 1) * rows_ + request.micro_batch * batch.tokens.size();
    std::copy_n(tokens_.begin() + i64(begin), batch.tokens.size(), batch.tokens.begin());
    std::copy_n(targets_.begin() + i64(begin), batch.targets.size(), batch.targets.begin());
    return {};
  }

  StepSettings settings(u64 step) const override {
    const auto begin = targets_.begin() + i64((step - 1) * rows_);
    StepSettings settings = every_step_;
    settings.target_tokens = u64(std::count_if(begin, begin + i64(rows_), [](i32 t) { return t >= 0; }));
    return settings;
  }

 private:
  const std::vector<i32> tokens_, targets_;
  const u64 rows_;
  const StepSettings every_step_;
};

// Curve records the result of each step.
struct Curve final : EngineObserver {
  explicit Curve(const StepResults& results) : results(results) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind != OpKind::norm) return;
    steps.push_back(results.result(issue.step));
    router_losses.push_back(results.routing(issue.step).losses);
  }
  const StepResults& results;
  std::vector<StepResult> steps;
  std::vector<RouterLosses> router_losses;
};

}  // namespace tidepool::test
