#include "run/choice_progress.h"

#include <fmt/format.h>

#include "base/steady_seconds.h"
#include "base/text/units.h"

namespace tidepool {
namespace {

constexpr double silent_seconds = 1;

}  // namespace

ChoiceProgress::ChoiceProgress() : began_(steady_seconds()) {}

PlanProgress ChoiceProgress::listener() {
  return {.tried = [this](u32 candidates, double best) { tried(candidates, best); },
          .trying_change = [this](std::string_view change) { trying(change); }};
}

void ChoiceProgress::tried(u32 candidates, double best_step_seconds) {
  if (steady_seconds() - began_ < silent_seconds) return;
  const std::string_view what = "choosing a plan by predicted time";
  std::string line = fmt::format(" {}: {} compared", what, candidates);
  if (best_step_seconds > 0) line += fmt::format(", best {} a step", seconds_text(best_step_seconds));
  line_.show(what, line, fmt::format("{} ...", what));
}

void ChoiceProgress::trying(std::string_view change) {
  if (steady_seconds() - began_ < silent_seconds) return;
  constexpr std::string_view what = "the job does not fit: looking for changes that fit";
  line_.show(what, fmt::format(" {}: {}", what, change), fmt::format("{} ...", what));
}

}  // namespace tidepool
