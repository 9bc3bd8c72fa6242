#include "run/train_length.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/units.h"
#include "data/batches/batch_source.h"
#include "run/open_data.h"

namespace tidepool {
namespace {

constexpr double epoch_steps_max = 1e15;  // as of train.max_steps

std::string epochs_of_steps(u64 steps, u64 steps_per_epoch) {
  return fmt::format("{} epochs of {}",
                     count_text(static_cast<double>(steps) / static_cast<double>(steps_per_epoch)),
                     counted_text(steps_per_epoch, "step"));
}

}  // namespace

Result<u64> steps_to_train(const TrainConfig& train, u64 steps_per_epoch) {
  if (train.max_steps != steps_by_epochs) return train.max_steps;
  const double steps = std::ceil(train.num_train_epochs * static_cast<double>(steps_per_epoch));
  if (steps > epoch_steps_max)
    return Error{ErrorKind::usage,
                 fmt::format("train.num_train_epochs: {:g} epochs of {} are more than {:g} steps; train for "
                             "fewer",
                             train.num_train_epochs, counted_text(steps_per_epoch, "step"), epoch_steps_max)};
  return static_cast<u64>(steps);
}

std::string train_length_text(const TrainConfig& train, u64 steps_per_epoch) {
  const Result<u64> steps = steps_to_train(train, steps_per_epoch);
  if (!steps) return steps.error().message;
  const std::string are = fmt::format("{} {} {}", counted_text(*steps, "step"), *steps == 1 ? "is" : "are",
                                      epochs_of_steps(*steps, steps_per_epoch));
  if (train.num_train_epochs == 0 || train.max_steps == steps_by_epochs) return are;
  return fmt::format(
      "{}: train.max_steps overrides train.num_train_epochs {:g}; leave max_steps out, or set it to auto, to "
      "train for these epochs",
      are, train.num_train_epochs);
}

std::optional<u64> steps_per_epoch_at_hand(const Job& job) {
  const Result<std::unique_ptr<Dataset>> data =
      open_data(job.config, {.quiet = true, .use = DataUse::counting});
  if (!data) return std::nullopt;
  return BatchSource(**data, job.graph.batch, job.options.micro_batches).steps_per_epoch();
}

}  // namespace tidepool
