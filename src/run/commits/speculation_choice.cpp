#include "run/commits/speculation_choice.h"

#include <fmt/format.h>

#include "base/median.h"
#include "base/text/units.h"
#include "fit/forecast.h"
#include "fit/job.h"

namespace tidepool {
namespace {

constexpr double least_gain = 0.05;           // predicted, to try it
constexpr double least_measured_gain = 0.02;  // to keep it
constexpr u64 settling = 4;                   // first steps with a policy, whose times do not count
constexpr double of_late = 64;                // steps
constexpr u64 more_patience = 4;              // each time that updates go back to waiting

}  // namespace

SpeculationChoice::SpeculationChoice(const Config& config, const Patience& patience) : patience_(patience) {
  took_.reserve(patience.timed);
  open_ = config.train.speculate == SpeculatePolicy::automatic && norm_counts(config) &&
          !scale_is_late(config) && config.machine.nodes == 1 && config.memory.versions != 1 &&
          (config.output.save || config.machine.gpus().empty());  // else products would be timed anew
}

void SpeculationChoice::step_done(const Step& step) {
  if (!open_) return;
  time_step(step);
  calm_ = step.changed ? 0 : calm_ + 1;
  again_ += static_cast<double>(step.again) - again_ / of_late;
  asks_ = step.speculated ? is_no_faster_ || again_ > gain_ * of_late : calm_ >= patience_.steps;
}

// Compares once only: later the machine may have other work.
void SpeculationChoice::time_step(const Step& step) {
  ++steps_;
  if (took_.size() == patience_.timed && patience_.timed > 0) took_.erase(took_.begin());
  if (took_.size() < patience_.timed) took_.push_back(step.took);
  if (!step.speculated || patience_.timed == 0 || steps_ != settling + patience_.timed) return;
  gain_ = 1 - median(took_) / waiting_took_;
  is_no_faster_ = gain_ < least_measured_gain;
}

std::string SpeculationChoice::switches(const ModelGraph& graph, const Plan& plan, const RunPlan& chosen,
                                        const Prediction& prediction) {
  asks_ = false;
  if (plan.speculates) return wait_again();
  if (!is_worth_it(graph, plan, chosen, prediction)) {
    close();
    return "";
  }
  again_ = 0;
  waiting_took_ = median(took_);
  took_.clear(), steps_ = 0;
  std::string text = fmt::format(
      "the norm has changed no update for {} steps: from now on updates do not wait for it", calm_);
  if (gain_ > 0)
    text += fmt::format(", which makes a step {:.2f} times as fast by prediction", 1 / (1 - gain_));
  return text + " (train.speculate)";
}

std::string SpeculationChoice::wait_again() {
  const double took = median(took_);
  took_.clear(), steps_ = calm_ = 0;
  if (is_no_faster_) {
    close();
    return fmt::format(
        "updates that do not wait for the norm make steps less than 2 % faster, {} instead of {}: from now "
        "on they wait (train.speculate)",
        seconds_text(took), seconds_text(waiting_took_));
  }
  patience_.steps *= more_patience;
  return fmt::format(
      "the norm changes updates too often: from now on they wait for it, until it has changed none for {} "
      "steps (train.speculate)",
      patience_.steps);
}

bool SpeculationChoice::is_worth_it(const ModelGraph& graph, const Plan& plan, const RunPlan& chosen,
                                    const Prediction& prediction) {
  if (plan.versions < 2) return false;
  PlanOptions options = chosen.options;
  options.speculates = true;
  options.versions = plan.versions;
  options.chunk_bytes = Bytes{plan.chunk_elements * sizeof(float)};  // the slots of commits stay as they are
  options.advise = false;
  const std::optional<Plan> other = draft_variation(graph, options);
  if (!other) return false;
  if (patience_.untried) return true;
  if (prediction.seconds.empty()) return false;
  const auto seconds = [&](const Plan& of) {
    const Result<Forecast> step =
        forecast(of, graph, prediction.machine, {.seconds = prediction.seconds, .check_tags = false});
    return step ? step->step_seconds : 0;
  };
  const double waiting = seconds(plan), speculating = seconds(*other);
  gain_ = waiting > 0 && speculating > 0 ? 1 - speculating / waiting : 0;
  return gain_ >= least_gain;
}

}  // namespace tidepool
