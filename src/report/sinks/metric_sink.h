// MetricSink is a log of the numbers of a running training. Each has a file here and a row in
// metric_sinks.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "report/metrics.h"

namespace tidepool {

// Every line reaches the file before append() returns, so a kill loses none. After an error nothing of the
// line stays, and the next line can be written. THREADS: one at a time.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual Result<void> append(const MetricLine&) = 0;
  // Makes appended lines durable.
  virtual Result<void> sync() = 0;
};

struct MetricSinkRow {
  std::string_view name;   // as output.report_to names it; empty: every run has it
  std::string_view title;  // of what it writes, for people
  bool several;            // the title is plural
  // `steps_done`: steps before this process. Lines of later steps are dropped: the resumed run writes them
  // again.
  Result<std::unique_ptr<MetricSink>> (*open)(const std::string& run_dir, u64 steps_done);
};
std::span<const MetricSinkRow> metric_sinks();

Result<std::unique_ptr<MetricSink>> open_jsonl_sink(const std::string& run_dir, u64 steps_done);
Result<std::unique_ptr<MetricSink>> open_tensorboard_sink(const std::string& run_dir, u64 steps_done);
Result<std::unique_ptr<MetricSink>> open_csv_sink(const std::string& run_dir, u64 steps_done);

}  // namespace tidepool
