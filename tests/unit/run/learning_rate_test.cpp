// Learning rates of each step, against those of transformers' schedules (scripts/make_golden_rates.py).
#include "run/learning_rate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "config_files/load_config.h"
#include "tests/support/json_file.h"
#include "tests/support/places.h"

namespace tidepool::learning_rate_test {

using ::testing::HasSubstr;

Result<Config> config_of(const std::string& train, const std::vector<std::string>& overrides = {}) {
  return parse_config("data: {train: a.txt}\nmemory: {device: 1GiB, host: 2GiB}\ntrain: {" + train + "}\n",
                      "c.yaml", overrides);
}

TEST(LearningRates, AreThoseOfTransformersAtEachStep) {
  const boost::json::value golden = json_of_file(source_file("tests/golden/rates.json"));
  for (const boost::json::value& c : golden.at("cases").as_array()) {
    const auto& rates = c.at("rates").as_array();
    const std::string text = fmt::format(
        "sequence_length: 16, max_steps: {}, learning_rate: {}, lr_scheduler_type: {}, warmup_steps: {}, "
        "lr_scheduler_kwargs: {}",
        rates.size(), json_text(golden.at("learning_rate"), JsonStyle::line), string_of(c.at("type")),
        c.at("warmup").as_int64(), json_text(c.at("kwargs"), JsonStyle::line));
    // transformers' floor of this schedule is 0 unless it is given.
    const bool floor_left_out = string_of(c.at("type")) == "warmup_stable_decay" &&
                                !c.at("kwargs").as_object().contains("min_lr_ratio");
    const Result<Config> config = config_of(floor_left_out ? text + ", min_lr_ratio: 0" : text);
    ASSERT_TRUE(config) << config.error().message;
    // The run's own config.yaml says the same.
    EXPECT_EQ(parse_config(to_yaml(*config), "config.yaml", {}).value().train, config->train);
    const LearningRate rate = make_learning_rate(config->train).value();
    for (u64 step = 1; step <= rates.size(); ++step)
      EXPECT_NEAR(rate(step), rates[step - 1].to_number<double>(), 1e-15) << text << " step " << step;
  }
}

TEST(LearningRates, OfWarmupStableDecayHaveTheirKeysInTrainToo) {
  const auto keys = config_of(
      "sequence_length: 16, lr_scheduler_type: warmup_stable_decay, num_decay_steps: 7, num_stable_steps: 3, "
      "min_lr_ratio: 0.25, decay_type: 1-sqrt, warmup_type: cosine");
  const auto map = config_of(
      "sequence_length: 16, lr_scheduler_type: warmup_stable_decay, lr_scheduler_kwargs: {num_decay_steps: "
      "7, "
      "num_stable_steps: 3, min_lr_ratio: 0.25, decay_type: 1-sqrt, warmup_type: cosine}");
  const auto overrides =
      config_of("sequence_length: 16",
                {"lr_scheduler_type=warmup_stable_decay", "lr_scheduler_kwargs.num_decay_steps=7",
                 "train.lr_scheduler_kwargs.num_stable_steps=3", "train.min_lr_ratio=0.25",
                 "decay_type=1-sqrt", "warmup_type=cosine"});
  ASSERT_TRUE(keys && map && overrides);
  EXPECT_EQ(keys->train, map->train);
  EXPECT_EQ(keys->train, overrides->train);
  EXPECT_EQ(keys->train.min_lr_rate, 0.25);
  // The defaults: all steps but warm-up and decay are stable, and a tenth of the rest decays.
  const auto plain = config_of("sequence_length: 16, lr_scheduler_type: warmup_stable_decay, max_steps: 100");
  const LearningRate rate = make_learning_rate(plain->train).value();
  EXPECT_EQ(rate(90), rate(1));
  EXPECT_LT(rate(92), rate(1));
  const auto none = config_of(
      "sequence_length: 16, lr_scheduler_type: warmup_stable_decay, max_steps: 100, num_decay_steps: 0");
  EXPECT_EQ(make_learning_rate(none->train).value()(100), rate(1)) << "0 is no decay";
}

TEST(LearningRates, RefuseKeysThatTheirScheduleIgnores) {
  const auto fault = [](const std::string& train) { return config_of("sequence_length: 16, " + train); };
  EXPECT_THAT(
      fault("lr_scheduler_type: cosine, num_decay_steps: 5").error().message,
      HasSubstr("train.num_decay_steps: is for lr_scheduler_type warmup_stable_decay, but this run has "
                "cosine"));
  EXPECT_THAT(fault("lr_scheduler_kwargs: {gamma: 2}").error().message,
              HasSubstr("train.lr_scheduler_kwargs: unknown key 'gamma'; the keys are num_decay_steps"));
  EXPECT_THAT(fault("lr_scheduler_kwargs: {min_lr: 1e-6}").error().message,
              HasSubstr("set train.min_lr_rate"));
  EXPECT_FALSE(fault("lr_scheduler_kwargs_num_cycles: 3"));
  EXPECT_THAT(fault("lr_scheduler_type: warmup_stable_decay, decay_type: square").error().message,
              HasSubstr("is not one of linear, cosine, 1-sqrt"));
}

}  // namespace tidepool::learning_rate_test
