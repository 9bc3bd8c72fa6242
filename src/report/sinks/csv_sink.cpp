// metrics.csv: a column for the step and one for each metric, and a cell is empty where a line does not have
// the number. Spreadsheets and pandas.read_csv() read it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text/path_text.h"
#include "base/write_file.h"
#include "report/sinks/metric_sink.h"
#include "report/text_file.h"

namespace tidepool {
namespace {

std::string header() {
  std::string out = "step";
  for (u32 i = 0; i < metric_count; ++i) out.append(",").append(name(static_cast<Metric>(i)));
  return out + "\n";
}

std::string to_csv(const MetricLine& line) {
  std::string out = fmt::format("{}", line.step);
  for (u32 i = 0; i < metric_count; ++i) {
    const Metric metric = static_cast<Metric>(i);
    out += ",";
    if (line.metrics.has(metric)) out += fmt::format("{}", line.metrics[metric]);
  }
  return out + "\n";
}

// True if a row is the last one of a process: it alone has the mean loss of the run.
bool is_of_run(std::string_view row) {
  for (u32 column = 0; column <= static_cast<u32>(Metric::train_loss); ++column)
    row.remove_prefix(std::min(row.find(','), row.size() - 1) + 1);
  return !row.empty() && row.front() != ',';
}

// The complete rows of steps up to `through`, without those at the end of earlier processes.
std::string kept_rows(std::string_view text, u64 through) {
  std::string out = header();
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string_view row = text.substr(0, end);
    u64 step = 0;
    const auto [after, fault] = std::from_chars(row.data(), row.data() + row.size(), step);
    const bool is_step = fault == std::errc() && after != row.data() + row.size() && *after == ',';
    if (is_step && step <= through && !is_of_run(row)) out.append(row).append("\n");
  }
  return out;
}

class CsvSink final : public MetricSink {
 public:
  explicit CsvSink(AppendLog log) : log_(std::move(log)) {}
  Result<void> append(const MetricLine& line) override { return log_.append(to_csv(line)); }
  Result<void> sync() override { return log_.sync(); }

 private:
  AppendLog log_;
};

}  // namespace

Result<std::unique_ptr<MetricSink>> open_csv_sink(const std::string& run_dir, u64 steps_done) {
  const std::string path = run_dir + "/metrics.csv";
  std::string text;
  if (is_named(path)) {
    TRY_ASSIGN(text, read_text_file(path));
    if (!text.starts_with(header()))
      return Error{ErrorKind::bad_input,
                   fmt::format("{} has other columns than this version writes: move it away", path)};
  }
  TRY(replace_file(path, kept_rows(text, steps_done), FileUse::run));
  TRY_ASSIGN(AppendLog log, AppendLog::open(path, FileUse::run));
  return std::unique_ptr<MetricSink>(std::make_unique<CsvSink>(std::move(log)));
}

}  // namespace tidepool
