#include "report/run_log.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tidepool {

Result<std::unique_ptr<RunLog>> RunLog::open(const std::string& run_dir, u64 steps_done) {
  std::unique_ptr<RunLog> log(new RunLog);
  TRY_ASSIGN(log->metrics_, MetricsLog::open(run_dir + "/metrics.jsonl", steps_done));
  TRY_ASSIGN(log->events_, EventFile::create(run_dir, steps_done + 1));
  return log;
}

void RunLog::append(const StepMetrics& m) {
  const std::array<Scalar, 7> scalars = {{{"train/loss", m.loss},
                                          {"train/grad_norm", m.grad_norm},
                                          {"train/learning_rate", m.learning_rate},
                                          {"train/epoch", m.epoch},
                                          {"train/train_tokens_per_second", m.train_tokens_per_second},
                                          {"train/step_seconds", m.step_seconds},
                                          {"train/loss_scale", m.loss_scale.value_or(0)}}};
  std::vector<Scalar> all(scalars.begin(), scalars.end() - (m.loss_scale ? 0 : 1));
  if (m.router)
    for (const RouterCurve& curve : router_curves) all.push_back({curve.tag, (*m.router).*curve.value});
  append(m.step, metrics_->append(m), events_->append(m.step, all));
}

void RunLog::append(const EvalMetrics& m) {
  append(m.step, metrics_->append(m),
         events_->append(m.step, std::array<Scalar, 3>{{{"eval/loss", m.eval_loss},
                                                        {"eval/perplexity", std::exp(m.eval_loss)},
                                                        {"eval/runtime", m.eval_seconds}}}));
}

void RunLog::append(const TrainMetrics& m) {
  append(m.step, metrics_->append(m),
         events_->append(m.step, std::array<Scalar, 2>{{{"train/train_loss", m.train_loss},
                                                        {"train/train_runtime", m.train_runtime}}}));
}

void RunLog::append(u64 step, const Result<void>& metrics, const Result<void>& events) {
  note(metrics_kept_, step, metrics);
  note(events_kept_, step, events);
}

void RunLog::note(Kept& kept, u64 step, const Result<void>& written) {
  if (written || ++kept.lost > 1) return;
  kept.first_fault = written.error().message;
  warnings_.push_back(fmt::format("{} may lack lines from step {} on: {} Training continues", kept.name, step,
                                  kept.first_fault));
}

void RunLog::sync() {
  for (const Result<void>& synced : {metrics_->sync(), events_->sync()})
    if (!synced) warnings_.push_back(synced.error().message);
}

std::vector<std::string> RunLog::what_is_missing() const {
  std::vector<std::string> out;
  for (const Kept* kept : {&metrics_kept_, &events_kept_})
    if (kept->lost > 0)
      out.push_back(fmt::format("{} lack{} {} line{}: {}", kept->name, kept == &metrics_kept_ ? "s" : "",
                                kept->lost, kept->lost == 1 ? "" : "s", kept->first_fault));
  return out;
}

}  // namespace tidepool
