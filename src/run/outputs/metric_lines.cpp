#include "run/outputs/metric_lines.h"

namespace tidepool {

MetricLine step_line(const StepFacts& facts, const StepResult& result) {
  MetricLine line{.told = Told::step, .step = facts.step};
  line.metrics.set(Metric::epoch, facts.epoch)
      .set(Metric::loss, result.loss)
      .set(Metric::grad_norm, result.grad_norm)
      .set(Metric::learning_rate, facts.learning_rate)
      .set(Metric::train_tokens_per_second, static_cast<double>(facts.tokens) / facts.seconds)
      .set(Metric::step_seconds, facts.seconds);
  if (facts.is_fp16) line.metrics.set(Metric::loss_scale, result.loss_scale.scale);
  return line;
}

MetricLine evaluation_line(u64 step, double epoch, double loss, const Figure& figure, double seconds) {
  MetricLine line{.told = Told::evaluation, .step = step};
  line.metrics.set(Metric::epoch, epoch)
      .set(Metric::eval_loss, loss)
      .set(metric_named(figure.of.metric), figure.value)
      .set(Metric::eval_runtime, seconds);
  return line;
}

MetricLine run_line(u64 step, double seconds, double tokens_per_second, double loss) {
  MetricLine line{.told = Told::run, .step = step};
  line.metrics.set(Metric::train_tokens_per_second, tokens_per_second)
      .set(Metric::train_runtime, seconds)
      .set(Metric::train_loss, loss);
  return line;
}

}  // namespace tidepool
