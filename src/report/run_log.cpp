#include "report/run_log.h"

#include <array>
#include <cmath>

namespace tidepool {

Result<std::unique_ptr<RunLog>> RunLog::open(const std::string& run_dir, u64 steps_done) {
  std::unique_ptr<RunLog> log(new RunLog);
  TRY_ASSIGN(log->metrics_, MetricsLog::open(run_dir + "/metrics.jsonl", steps_done));
  TRY_ASSIGN(log->events_, EventFile::create(run_dir, steps_done + 1));
  return log;
}

Result<void> RunLog::append(const StepMetrics& m) {
  TRY(metrics_->append(m));
  const std::array<Scalar, 7> scalars = {{{"train/loss", m.loss},
                                          {"train/grad_norm", m.grad_norm},
                                          {"train/learning_rate", m.learning_rate},
                                          {"train/epoch", m.epoch},
                                          {"train/train_tokens_per_second", m.train_tokens_per_second},
                                          {"train/step_seconds", m.step_seconds},
                                          {"train/loss_scale", m.loss_scale.value_or(0)}}};
  return events_->append(m.step, std::span(scalars).first(m.loss_scale ? 7 : 6));
}

Result<void> RunLog::append(const EvalMetrics& m) {
  TRY(metrics_->append(m));
  return events_->append(m.step, std::array<Scalar, 3>{{{"eval/loss", m.eval_loss},
                                                        {"eval/perplexity", std::exp(m.eval_loss)},
                                                        {"eval/runtime", m.eval_seconds}}});
}

Result<void> RunLog::append(const TrainMetrics& m) {
  TRY(metrics_->append(m));
  return events_->append(m.step, std::array<Scalar, 2>{{{"train/train_loss", m.train_loss},
                                                        {"train/train_runtime", m.train_runtime}}});
}

}  // namespace tidepool
