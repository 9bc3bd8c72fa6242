// TensorBoard's events, with the tags of Hugging Face's trainer: `loss` is train/loss, `eval_loss` is
// eval/loss.
#include <vector>

#include "report/sinks/event_file.h"
#include "report/sinks/metric_sink.h"

namespace tidepool {
namespace {

class TensorBoardSink final : public MetricSink {
 public:
  explicit TensorBoardSink(std::unique_ptr<EventFile> events) : events_(std::move(events)) {}

  Result<void> append(const MetricLine& line) override {
    std::vector<Scalar> scalars;
    line.metrics.each([&](Metric metric, double value) {
      // The mean of a run is no point of the curve over its steps.
      if (info(metric).first == line.event) scalars.push_back({info(metric).tag, value});
    });
    return events_->append(line.step, scalars);
  }
  Result<void> sync() override { return events_->sync(); }

 private:
  const std::unique_ptr<EventFile> events_;
};

}  // namespace

Result<std::unique_ptr<MetricSink>> open_tensorboard_sink(const std::string& run_dir, u64 steps_done) {
  TRY_ASSIGN(auto events, EventFile::create(run_dir, steps_done + 1));
  return std::unique_ptr<MetricSink>(std::make_unique<TensorBoardSink>(std::move(events)));
}

}  // namespace tidepool
