#include "report/sinks/metric_sinks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tidepool {

std::span<const MetricSinkRow> metric_sinks() {
  static constexpr std::array<MetricSinkRow, 3> rows = {
      {{"", "metrics.jsonl", false, open_jsonl_sink},
       {"tensorboard", "the TensorBoard events", true, open_tensorboard_sink},
       {"csv", "metrics.csv", false, open_csv_sink}}};
  return rows;
}

Result<std::unique_ptr<MetricSinks>> MetricSinks::open(const std::string& run_dir, u64 steps_done,
                                                       std::span<const std::string> names) {
  std::unique_ptr<MetricSinks> sinks(new MetricSinks);
  for (const MetricSinkRow& row : metric_sinks()) {
    if (!row.name.empty() && std::ranges::find(names, row.name) == names.end()) continue;
    TRY_ASSIGN(auto sink, row.open(run_dir, steps_done));
    sinks->open_.push_back({.row = row, .sink = std::move(sink)});
  }
  return sinks;
}

void MetricSinks::append(const MetricLine& line) {
  for (Open& open : open_) {
    const Result<void> written = open.sink->append(line);
    if (written || ++open.lost > 1) continue;
    open.first_fault = written.error().message;
    warnings_.push_back(fmt::format("{} may lack lines from step {} on: {} Training continues",
                                    open.row.title, line.step, open.first_fault));
  }
}

void MetricSinks::sync() {
  for (const Open& open : open_)
    if (const Result<void> synced = open.sink->sync(); !synced) warnings_.push_back(synced.error().message);
}

std::vector<std::string> MetricSinks::what_is_missing() const {
  std::vector<std::string> out;
  for (const Open& open : open_)
    if (open.lost > 0)
      out.push_back(fmt::format("{} lack{} {} line{}: {}", open.row.title, open.row.several ? "" : "s",
                                open.lost, open.lost == 1 ? "" : "s", open.first_fault));
  return out;
}

}  // namespace tidepool
