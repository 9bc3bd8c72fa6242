#include "run/finished_run.h"

#include <fmt/format.h>

#include "run/assembly/assemble_report.h"
#include "run/early_stop.h"
#include "run/resume_notes.h"

namespace tidepool {

bool all_is_done(const FoundCheckpoint& found, const Config& config) {
  const u64 step = found.state.step, last = config.train.max_steps;
  const bool stopped = !why_stop_early(found.state.eval_losses, config.train).empty();
  if (step != last && !stopped) return step > last;
  const Result<RunReport> report = read_report(config.output.dir);
  return report && report->resumed_from_step + report->steps >= step;
}

RunReport done_before(const FoundCheckpoint& found, const Config& config, RunOutputs& outputs) {
  const std::string why = why_stop_early(found.state.eval_losses, config.train);
  if (!why.empty() && found.state.step < config.train.max_steps)
    outputs.say(fmt::format(
        "nothing to do: stopped early at step {}: {}; raise train.early_stopping_patience to train longer",
        found.state.step, why));
  else
    outputs.say(fmt::format("nothing to do: step {} of {}; raise train.max_steps to train longer",
                            found.state.step, config.train.max_steps));
  for (const std::string& note : resume_notes(found.state, config, numeric_settings(config)))
    outputs.say(note);
  RunReport report{.resumed_from_step = found.state.step};
  add_losses(report, found.state);
  report.weights_xxh3 = fmt::format("{:016x}", found.weights_xxh3);
  return report;
}

}  // namespace tidepool
