#include "run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tidepool {
namespace {

double half_cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }

// Factor of the schedules that fall over all steps after the warm-up; `progress` runs from 0 to 1.
double falling_factor(const TrainConfig& train, double progress) {
  const std::string& type = train.lr_scheduler_type;
  if (type == "cosine") return std::max(0.0, half_cosine(progress));
  if (type == "cosine_with_min_lr")
    return train.min_lr_rate + (1.0 - train.min_lr_rate) * half_cosine(progress);
  if (type == "linear") return std::max(0.0, 1.0 - progress);
  return 1.0;  // constant, constant_with_warmup
}

// Rises from 0 to 1 as `progress` does.
double rising_curve(const std::string& curve, double progress) {
  if (curve == "cosine") return half_cosine(1.0 - progress);
  if (curve == "1-sqrt") return 1.0 - std::sqrt(1.0 - progress);
  return progress;
}
// Falls from 1 to 0 as `progress` rises; a cosine may swing further.
double falling_curve(const TrainConfig& train, double progress) {
  if (train.decay_type == "cosine") return half_cosine(2.0 * train.num_cycles * progress);
  if (train.decay_type == "1-sqrt") return 1.0 - std::sqrt(progress);
  return 1.0 - progress;
}

// Factor of warmup_stable_decay, as transformers' get_wsd_schedule() computes it: all three stages are above
// the floor.
double wsd_factor(const TrainConfig& train, double warmup, double steps, double done) {
  const auto above_floor = [&](double x) {
    return std::max(0.0, x * (1.0 - train.min_lr_rate) + train.min_lr_rate);
  };
  if (done < warmup) return above_floor(rising_curve(train.warmup_type, done / std::max(1.0, warmup)));
  const double decay = train.num_decay_steps != tenth_of_steps ? static_cast<double>(train.num_decay_steps)
                                                               : (steps - warmup) / 10;
  const double stable = train.num_stable_steps != remaining_steps
                            ? static_cast<double>(train.num_stable_steps)
                            : steps - warmup - decay;
  if (done < warmup + stable) return 1.0;
  if (done < warmup + stable + decay)
    return above_floor(falling_curve(train, (done - warmup - stable) / std::max(1.0, decay)));
  return train.min_lr_rate;
}

}  // namespace

Result<LearningRate> make_learning_rate(const TrainConfig& train) {
  const std::string type = train.lr_scheduler_type;
  if (std::ranges::find(lr_schedulers, type) == lr_schedulers.end())
    return Error{ErrorKind::usage, fmt::format("train.lr_scheduler_type: '{}' is unknown; use one of {}",
                                               type, fmt::join(lr_schedulers, ", "))};
  const double steps = static_cast<double>(train.max_steps);
  const double warmup = type == "constant"       ? 0
                        : train.warmup_steps < 1 ? std::ceil(train.warmup_steps * steps)
                                                 : train.warmup_steps;
  return LearningRate([=](u64 step) {
    const double done = static_cast<double>(step - 1);
    if (type == "warmup_stable_decay") return train.learning_rate * wsd_factor(train, warmup, steps, done);
    if (done < warmup) return train.learning_rate * done / std::max(1.0, warmup);
    const double rest = std::max(1.0, steps - warmup);
    return train.learning_rate * falling_factor(train, std::min(1.0, (done - warmup) / rest));
  });
}

}  // namespace tidepool
