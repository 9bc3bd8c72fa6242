#include "run/outputs/run_outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "report/page/html_report.h"
#include "report/print_text.h"
#include "report/standard_writers.h"
#include "run/outputs/metric_lines.h"

namespace tidepool {
namespace {

double mean(const std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

RunOutputs::RunOutputs(const Config& config, bool quiet)
    : config_(config), quiet_(quiet), screen_(detect_screen(1)) {
  // A launcher may give a process a terminal whose text it only passes on.
  if (config.machine.nodes > 1) screen_.tty = screen_.color = false;
  if (!quiet_ && writer_of(stdout) != nullptr)
    writer_of(stdout)->when_lost(*writer_of(stderr), words_of_lost_output());
}

std::string RunOutputs::words_of_lost_output() const {
  return fmt::format(
      "tidepool: standard output is full or closed: training continues, and {} gets all files\n",
      text_to_show(config_.output.dir));
}

void RunOutputs::say(LogLevel level, const std::string& line) {
  log_text(level, line);
  if (quiet_) return;
  if (progress_) return progress_->note(line);
  print(line + "\n");
}

// Not print_text(), which throws if nothing can be written: training and its files continue.
void RunOutputs::print(const std::string& text) {
  try_print_text(stdout, text);
  std::fflush(stdout);
  watch_output();
}

void RunOutputs::watch_output() {
  if (output_lost_ || std::ferror(stdout) == 0) return;
  output_lost_ = true;
  print_text(stderr, "{}", words_of_lost_output());
}

void RunOutputs::show(const PlanSummary& plan) {
  if (takes_log(LogLevel::info)) log_text(LogLevel::info, render_plan(plan, Screen{}));
  if (quiet_) return;
  print(render_plan(plan, screen_));
}

Result<void> RunOutputs::open(const Plan& plan, u64 first_step, double total_epochs) {
  TRY_ASSIGN(log_, MetricSinks::open(config_.output.dir, first_step, config_.output.report_to));
  commits_ = plan.versions > 1;
  if (quiet_) return {};
  progress_ = std::make_unique<Progress>(screen_, stdout,
                                         Progress::Options{.total_steps = config_.train.max_steps,
                                                           .total_epochs = total_epochs,
                                                           .first_step = first_step,
                                                           .logging_steps = config_.output.logging_steps,
                                                           .now_seconds = steady_seconds()});
  if (screen_.tty) live_ = std::make_unique<LiveMeter>(plan);
  return {};
}

void RunOutputs::change_plan(const Plan& plan) {
  if (live_) live_ = std::make_unique<LiveMeter>(plan);
}

void RunOutputs::segment_started(const SegmentRun& run) {
  oldest_ = open_++ == 0 ? run.step : newest_;
  newest_ = run.step;
  if (live_) live_->segment_started(run);
}

void RunOutputs::segment_finished() {
  open_ = open_ > 0 ? open_ - 1 : 0;
  oldest_ = newest_;
  if (waiting_) tell(*std::exchange(waiting_, std::nullopt));
}

void RunOutputs::at_rest() {
  open_ = 0;
  if (waiting_) tell(*std::exchange(waiting_, std::nullopt));
}

void RunOutputs::completed(const Issue& issue, const Completion& completion) {
  if (!live_) return;
  live_->completed(issue, completion);
  const double now = steady_seconds();
  progress_->live(live_->at(now), now);
}

void RunOutputs::step(const MetricLine& m) {
  if (commits_ && open_ > 1 && oldest_ < m.step)
    waiting_ = m;
  else
    tell(m);
}

void RunOutputs::tell(const MetricLine& m) {
  if (progress_) progress_->step({.step = m.step, .metrics = m.metrics}, steady_seconds());
  if (!quiet_) watch_output();
  log_debug("step {} took {}", m.step, seconds_text(m.metrics[Metric::step_seconds]));
  if (!logs(m.step)) return;
  if (progress_ && takes_log(LogLevel::info)) log_text(LogLevel::info, progress_->last_line());
  log_->append(m);
  tell_of_log();
}

bool RunOutputs::logs(u64 step) const {
  return step % config_.output.logging_steps == 0 || step == config_.train.max_steps;
}

void RunOutputs::evaluation(const MetricLine& line) {
  log_->append(line);
  tell_of_log();
}

void RunOutputs::sync() {
  log_->sync();
  tell_of_log();
}

void RunOutputs::tell_of_log() {
  for (const std::string& warning : log_->take_warnings()) warn(warning);
}

Result<void> RunOutputs::finish(const RunReport& report) {
  log_->append(run_line(report.resumed_from_step + report.steps, report.train_seconds,
                        report.tokens_per_second, mean(report.losses)));
  sync();
  for (const std::string& missing : log_->what_is_missing()) warn(missing);
  return write_report(config_.output.dir, report);
}

void RunOutputs::show(const RunReport& report) {
  end_view();
  if (takes_log(LogLevel::info)) log_text(LogLevel::info, render_report(report, Screen{}));
  if (quiet_) return;
  renew_size(screen_, STDOUT_FILENO);
  print(render_report(report, screen_));
}

void RunOutputs::end_view() {
  progress_.reset();
  live_.reset();
}

Result<void> RunOutputs::tell_process_size(RunReport& report) {
  settle_log(std::chrono::milliseconds(100));  // what the log's thread takes for lines is part of the size
  const Bytes size = process_peak();
  if (size <= report.rss_peak) return {};
  report.rss_peak = size;
  TRY(write_report(config_.output.dir, report));
  page();
  return {};
}

void RunOutputs::page() {
  const Result<RunFiles> files = read_run(config_.output.dir);
  const Result<void> written =
      files ? write_html(config_.output.dir + "/report.html", {&*files, 1}, FileUse::run)
            : Result<void>(files.error());
  if (!written) say("no report.html: " + written.error().message);
}

}  // namespace tidepool
