#include "run/outputs/metric_lines.h"

#include <fmt/format.h>

#include "base/text/units.h"

namespace tidepool {

MetricLine step_line(const StepFacts& facts, const StepResult& result) {
  MetricLine line{.event = LogEvent::step, .step = facts.step};
  line.metrics.set(Metric::epoch, facts.epoch)
      .set(Metric::loss, result.loss)
      .set(Metric::grad_norm, result.grad_norm)
      .set(Metric::learning_rate, facts.learning_rate)
      .set(Metric::train_tokens_per_second, static_cast<double>(facts.tokens) / facts.seconds)
      .set(Metric::step_seconds, facts.seconds);
  const double targets = static_cast<double>(result.target_tokens);
  for (const ObjectiveMetric& metric : objective(facts.objective).metrics)
    if (const auto value = value_of(metric, result.sums, targets))
      line.metrics.set(metric_named(metric.name), *value);
  if (facts.is_fp16) line.metrics.set(Metric::loss_scale, result.loss_scale.scale);
  return line;
}

MetricLine evaluation_line(const Evaluated& e) {
  MetricLine line{.event = LogEvent::evaluation, .step = e.step};
  const Objective& of = objective(e.objective);
  line.metrics.set(Metric::epoch, e.epoch)
      .set(Metric::eval_loss, e.result.loss())
      .set(metric_named(of.figure.metric), e.figure())
      .set(Metric::eval_runtime, e.seconds);
  const double targets = static_cast<double>(e.result.targets);
  for (const ObjectiveMetric& metric : of.metrics)
    if (const auto value = value_of(metric, e.result.sums, targets))
      line.metrics.set(metric_named("eval_" + std::string(metric.name)), *value);
  return line;
}

std::string evaluation_text(const Evaluated& e) {
  const Objective& of = objective(e.objective);
  return fmt::format("step {}: eval_loss {}, {} {} over {} {} in {:.1f} s", e.step,
                     loss_text(e.result.loss()), of.figure.word, of.figure.text(e.figure()), e.result.targets,
                     of.targets, e.seconds);
}

MetricLine run_line(u64 step, double seconds, double tokens_per_second, double loss) {
  MetricLine line{.event = LogEvent::run, .step = step};
  line.metrics.set(Metric::train_tokens_per_second, tokens_per_second)
      .set(Metric::train_runtime, seconds)
      .set(Metric::train_loss, loss);
  return line;
}

}  // namespace tidepool
