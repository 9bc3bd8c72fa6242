// MetricSinks writes the lines of a running training to all logs that it has. A line that cannot be written
// is lost and counted, but never ends the training.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "report/sinks/metric_sink.h"

namespace tidepool {

// THREADS: one.
class MetricSinks {
 public:
  // `names`: the logs beside those of every run.
  static Result<std::unique_ptr<MetricSinks>> open(const std::string& run_dir, u64 steps_done,
                                                   std::span<const std::string> names);

  void append(const MetricLine&);
  void sync();

  // New warnings: one line for each log that has just lost its first line.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  // At the end: one line for each log with lost lines.
  std::vector<std::string> what_is_missing() const;

 private:
  struct Open {
    const MetricSinkRow& row;
    std::unique_ptr<MetricSink> sink;
    u64 lost = 0;
    std::string first_fault = {};
  };

  MetricSinks() = default;

  std::vector<Open> open_;
  std::vector<std::string> warnings_;
};

}  // namespace tidepool
