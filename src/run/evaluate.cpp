#include "run/evaluate.h"

#include <string_view>

#include "base/steady_seconds.h"
#include "objectives/objective.h"
#include "run/early_stop.h"
#include "run/outputs/metric_lines.h"
#include "session/evaluation_runs.h"

namespace tidepool {

namespace {

EvalLoss ranked(const Evaluated& done, const Config& config) {
  EvalLoss out = {done.step, done.result.loss(), done.result.targets, done.figure()};
  set_ranking(config.train, out);
  if (out.ranked_by.empty()) return out;
  out.value = out.ranked_by == "eval_loss"
                  ? out.loss
                  : evaluation_metric(objective(config.objective.type), out.ranked_by, done.result.sums,
                                      static_cast<double>(done.result.targets));
  return out;
}

}  // namespace

Result<void> evaluate(PreparedRun& run, Engine& engine) {
  const u64 batches = evaluation_batches(run), step = run.durability.state().issued;
  std::vector<EvalLoss>& losses = run.state.eval_losses;
  // A resume from this step has its evaluation already.
  if (batches == 0 || (!losses.empty() && losses.back().step == step)) return {};
  const double began = steady_seconds();
  EvaluationRuns runs(div_up(batches, run.session->plan().micro_batches / run.session->plan().sweeps));
  TRY(engine.run(runs, runs));
  TRY_ASSIGN(const EvalResult result, run.session->results().take_eval());
  const Evaluated done = {.step = step,
                          .epoch = run.batches->epoch(step),
                          .objective = run.config().objective.type,
                          .result = result,
                          .seconds = steady_seconds() - began};
  run.durability.tell(Event::evaluated);
  losses.push_back(ranked(done, run.config()));
  run.commits.progress().rested(run.state);
  if (best_evaluation(losses) == &losses.back()) run.durability.tell(Event::best_is_found);
  run.outputs.say(evaluation_text(done));
  const std::string anew = why_best_begins_anew(losses, run.config().train);
  if (!anew.empty()) run.outputs.say(anew);
  run.outputs.evaluation(evaluation_line(done));
  return {};
}

}  // namespace tidepool
