#include "run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tidepool {
namespace {

struct RateSchedule {
  double warmup = 0, total = 1, min_rate = 0;
};

double cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }

// Factor in [0, 1] after the warm-up; `progress` runs from 0 to 1 over the remaining steps.
double factor_after_warmup(const std::string& type, double progress, double min_rate) {
  if (type == "cosine") return std::max(0.0, cosine(progress));
  if (type == "cosine_with_min_lr") return min_rate + (1.0 - min_rate) * cosine(progress);
  if (type == "linear") return std::max(0.0, 1.0 - progress);
  // The last tenth decays, as a cosine, to min_rate.
  if (type == "warmup_stable_decay")
    return progress < 0.9 ? 1.0 : min_rate + (1.0 - min_rate) * cosine((progress - 0.9) / 0.1);
  return 1.0;  // constant, constant_with_warmup
}

}  // namespace

Result<LearningRate> make_learning_rate(const TrainConfig& train) {
  const std::string type = train.lr_scheduler_type;
  if (std::ranges::find(lr_schedulers, type) == lr_schedulers.end())
    return Error{ErrorKind::usage, fmt::format("train.lr_scheduler_type: '{}' is unknown; use one of {}",
                                               type, fmt::join(lr_schedulers, ", "))};
  const double steps = static_cast<double>(train.max_steps);
  RateSchedule schedule{.total = steps, .min_rate = train.min_lr_rate};
  if (type != "constant")
    schedule.warmup = train.warmup_steps < 1 ? std::ceil(train.warmup_steps * steps) : train.warmup_steps;
  const double peak = train.learning_rate;
  return LearningRate([=](u64 step) {
    const double done = static_cast<double>(step - 1);
    if (done < schedule.warmup) return peak * done / std::max(1.0, schedule.warmup);
    const double rest = std::max(1.0, schedule.total - schedule.warmup);
    return peak *
           factor_after_warmup(type, std::min(1.0, (done - schedule.warmup) / rest), schedule.min_rate);
  });
}

}  // namespace tidepool
