// HTML report: thins the curves and inserts the data, the style and the scripts into one page.
#include "report/page/html_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/json/text.h"
#include "base/text/checkpoint_name.h"
#include "base/text/path_text.h"
#include "base/write_file.h"
#include "report/page/page_assets.h"
#include "report/step_file.h"
#include "report/text_file.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr u64 curve_points_max = 2000;

// Escapes "</script>" in names and texts, which would end the data.
std::string script_safe(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string html_safe(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string short_number(double d) { return std::isfinite(d) ? fmt::format("{:.6g}", d) : "null"; }

// {"step": [...], "value": [...]}. Too many steps are reduced to means of equal runs of steps. Values that
// are not finite are omitted, and so is a mean of such values only.
template <class Step, class Value>
std::string curve(std::string_view name, u64 count, Step&& step_of, Value&& value_of) {
  const u64 stride = std::max<u64>(1, div_up(count, curve_points_max));
  std::string steps, values;
  for (u64 begin = 0; begin < count; begin += stride) {
    const u64 end = std::min(count, begin + stride);
    double sum = 0;
    u64 finite = 0;
    for (u64 i = begin; i < end; ++i) {
      if (!std::isfinite(value_of(i))) continue;
      sum += value_of(i);
      ++finite;
    }
    const char* comma = begin == 0 ? "" : ",";
    steps += fmt::format("{}{}", comma, step_of(end - 1));
    values += comma + short_number(finite == 0 ? std::nan("") : sum / static_cast<double>(finite));
  }
  return fmt::format("\"{}\":{{\"step\":[{}],\"value\":[{}],\"stride\":{}}}", name, steps, values, stride);
}

// Curve over every step of this process, and over logged earlier steps. `each` gives the value of a step.
template <class Each>
std::string metric_curve(Metric metric, const RunFiles& run, u64 count, Each&& each) {
  const u64 first = run.report.resumed_from_step + 1;
  std::vector<std::pair<u64, double>> points;
  for (const MetricLine& line : run.metrics)
    if (line.step < first || count == 0) points.emplace_back(line.step, line.metrics[metric]);
  for (u64 i = 0; i < count; ++i) points.emplace_back(first + i, each(i));
  return curve(
      name(metric), points.size(), [&](u64 i) { return points[i].first; },
      [&](u64 i) { return points[i].second; });
}

std::string router_curves_text(const RunFiles& run) {
  std::string out;
  if (!run.report.experts) return out;
  const std::vector<RouterMetrics>& each = run.report.experts->each_step;
  for (const RouterMetric& of : router_metrics)
    out += "," + metric_curve(of.metric, run, each.size(), [&](u64 i) { return each[i].*of.value; });
  return out;
}

std::string curves_text(const RunFiles& run) {
  const RunReport& r = run.report;
  std::string out = "\"curves\":{";
  out += curve(
      name(Metric::loss), r.losses.size(), [](u64 i) { return i + 1; }, [&](u64 i) { return r.losses[i]; });
  out += "," + curve(
                   name(Metric::step_seconds), r.each_step_seconds.size(),
                   [&](u64 i) { return r.resumed_from_step + i + 1; },
                   [&](u64 i) { return r.each_step_seconds[i]; });
  out += "," + curve(
                   name(Metric::eval_loss), std::min(r.eval_steps.size(), r.eval_losses.size()),
                   [&](u64 i) { return r.eval_steps[i]; }, [&](u64 i) { return r.eval_losses[i]; });
  const auto add = [&](Metric metric, const std::vector<double>& each) {
    out += "," + metric_curve(metric, run, each.size(), [&](u64 i) { return each[i]; });
  };
  add(Metric::learning_rate, r.each_learning_rate);
  add(Metric::grad_norm, r.each_grad_norm);
  return out + router_curves_text(run) + "}";
}

// The report without its long lists: the curves have them, thinned.
std::string report_text(const RunReport& report) {
  RunReport brief = report;
  brief.losses.clear();
  for (auto* each : {&brief.each_step_seconds, &brief.each_grad_norm, &brief.each_learning_rate})
    each->clear();
  if (brief.experts) brief.experts->each_step.clear();
  if (!report.losses.empty()) brief.losses = {report.losses.front(), report.losses.back()};
  return to_json(brief);
}

std::string json_text_of(std::string_view text) {
  return json::serialize(json::value(json::string_view(text.data(), text.size())));
}

std::string data_text(std::span<const RunFiles> runs) {
  std::string out = "{\"runs\":[";
  for (const RunFiles& run : runs) {
    if (out.back() != '[') out += ",";
    out += fmt::format(
        "{{\"name\":{},\"unfinished\":{},\"checkpoints\":[{}],\n\"report\":{},{},\n\"step\":{}}}",
        json_text_of(run.name), json_text_of(run.unfinished), fmt::join(run.checkpoints, ","),
        report_text(run.report), curves_text(run), run.step_json.empty() ? "null" : run.step_json);
  }
  return script_safe(out + "]}");
}

std::string title_of(std::span<const RunFiles> runs) {
  std::string title = "Tidepool";
  for (const RunFiles& run : runs) title += (title == "Tidepool" ? ": " : " against ") + run.name;
  return title;
}

// Replaces the template's marks in one pass, because the inserted text may contain marks too.
std::string fill_template(std::string_view text,
                          std::span<const std::pair<std::string_view, std::string_view>> marks) {
  std::string out;
  for (const auto& [mark, by] : marks) {
    const std::size_t at = text.find(mark);
    CHECK(at != std::string_view::npos, mark);
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + mark.size());
  }
  return out.append(text);
}

bool is_directory(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
}

// RETURNS: empty if the log is complete. A file that was cut between two lines has only complete lines, but
// ends too early.
std::string metrics_warning(const RunReport& report, const StepLog& log, const std::string& path) {
  std::string text;
  if (log.unreadable > 0)
    text = fmt::format("{} of {} lines cannot be read and are left out ({})", log.unreadable, log.lines,
                       log.first_fault);
  const auto logging = report.config.find("output.logging_steps");
  const u64 stride = logging == report.config.end() ? 0 : std::strtoull(logging->second.c_str(), nullptr, 10);
  const u64 last = log.steps.empty() ? 0 : log.steps.back().step,
            done = report.resumed_from_step + report.steps;
  if (stride > 0 && last + stride <= done)
    text += fmt::format("{}ends at step {} of {}", text.empty() ? "" : "; it ", last, done);
  return text.empty() ? "" : path + ": " + text;
}

Result<void> add_metrics(RunFiles& run, const std::string& path) {
  if (!is_named(path)) {
    run.warnings.push_back(run.name +
                           ": no metrics.jsonl, so the page has no learning rate and no gradient norm");
    return {};
  }
  TRY_ASSIGN(StepLog log, read_metrics(path));
  const std::string warning = log.lines == 0 ? "" : metrics_warning(run.report, log, path);
  if (!warning.empty()) run.warnings.push_back(warning);
  run.metrics = std::move(log.steps);
  return {};
}

std::vector<u64> steps_of_checkpoints(const std::string& run_dir) {
  std::vector<u64> steps;
  std::error_code failed;  // then no checkpoints are shown
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, failed)) {
    const auto name = parse_checkpoint_name(entry.path().filename().string());
    if (name && name->mark == CheckpointMark::whole) steps.push_back(name->step);
  }
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

Result<RunFiles> read_unfinished_run(const std::string& run_dir, RunReport report, std::string unfinished) {
  RunFiles run{.name = without_slashes(run_dir),
               .report = std::move(report),
               .metrics = {},
               .step_json = {},
               .checkpoints = steps_of_checkpoints(run_dir),
               .unfinished = std::move(unfinished),
               .warnings = {}};
  TRY(add_metrics(run, run.name + "/metrics.jsonl"));
  return run;
}

Result<RunFiles> read_run(const std::string& run_dir) {
  if (!is_directory(run_dir))
    return Error{ErrorKind::usage,
                 fmt::format("{} is not a directory: name the output.dir of a run", run_dir)};
  if (!is_named(run_dir + "/report.json"))
    return Error{
        ErrorKind::usage,
        fmt::format(
            "{} holds no report.json, which is written when a run ends or is stopped; for a run that was "
            "killed, 'tidepool train CONFIG --resume auto' writes it",
            run_dir)};
  Result<RunReport> report = read_report(run_dir);
  if (!report)
    return Error{report.error().kind,
                 fmt::format("{}; 'tidepool train CONFIG --resume auto' writes the report again",
                             report.error().message)};
  TRY_ASSIGN(RunFiles run, read_unfinished_run(run_dir, *std::move(report), ""));
  const std::string step_path = run_dir + "/step.json";
  if (!is_named(step_path)) {
    run.warnings.push_back(run.name + ": no step.json, so the page has no timeline");
    return run;
  }
  TRY_ASSIGN(run.step_json, read_text_file(step_path));
  TRY(check_step_file(run.step_json, step_path));
  return run;
}

std::string render_html(std::span<const RunFiles> runs) {
  const std::string title = html_safe(title_of(runs)), data = data_text(runs);
  const std::array<std::pair<std::string_view, std::string_view>, 4> marks = {
      {{"@TITLE@", title}, {"@STYLE@", page_style}, {"@DATA@", data}, {"@SCRIPT@", page_script}}};
  return fill_template(page_template, marks);
}

Result<void> write_html(const std::string& path, std::span<const RunFiles> runs, FileUse use) {
  return replace_file(path, render_html(runs), use);
}

}  // namespace tidepool
