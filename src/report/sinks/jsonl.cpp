#include "report/sinks/jsonl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/json/text.h"
#include "base/text/path_text.h"
#include "base/write_file.h"
#include "report/run_report.h"
#include "report/sinks/metric_sink.h"
#include "report/text_file.h"
#include "tidepool/experts.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// The complete lines with a step of at most `through`.
std::string kept_lines(std::string_view text, u64 through) {
  std::string out;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    json::error_code ec;
    const json::value v = json::parse(json::string_view(line.data(), line.size()), ec);
    const json::value* step = !ec && v.is_object() ? v.get_object().if_contains("step") : nullptr;
    if (step == nullptr || !step->is_int64() || static_cast<u64>(step->get_int64()) > through) continue;
    // The final line of an earlier process is dropped; this process will write its own.
    if (v.get_object().contains("train_runtime")) continue;
    out.append(line).append("\n");
  }
  return out;
}

double number(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(json::string_view(key.data(), key.size()));
  return v != nullptr && v->is_number() ? v->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Limit of plausible steps: a higher number means that the file was edited.
constexpr i64 step_most = i64{1} << 53;
constexpr u64 rows_most = 4096;  // layers

std::optional<ExpertTokens> expert_tokens_of(const json::object& o) {
  const json::value* rows = o.if_contains("expert_tokens");
  const double steps = number(o, "expert_token_steps");
  if (rows == nullptr || !rows->is_array() || rows->get_array().size() > rows_most || !(steps >= 1) ||
      steps > static_cast<double>(step_most))
    return std::nullopt;
  ExpertTokens out{.steps = static_cast<u64>(steps)};
  for (const json::value& row : rows->get_array()) {
    const json::array* values = row.if_array();
    if (values == nullptr || values->empty() || values->size() > experts_max) return std::nullopt;
    if (out.experts != 0 && out.experts != values->size()) return std::nullopt;
    out.experts = static_cast<u32>(values->size());
    for (const json::value& v : *values) {
      if (!v.is_int64() || v.get_int64() < 0 || v.get_int64() > step_most) return std::nullopt;
      out.tokens.push_back(static_cast<u64>(v.get_int64()));
    }
  }
  return out;
}

// Adds the line to `log` if it describes a step or an evaluation.
// Error: the fault of the line.
Result<void> read_line(std::string_view text, StepLog& log) {
  const std::string where = fmt::format("line {}", log.lines);
  TRY_ASSIGN(const json::value v, parse_json(text, ErrorKind::bad_input, where));
  const json::value* step = v.is_object() ? v.get_object().if_contains("step") : nullptr;
  if (step == nullptr || !step->is_int64() || step->get_int64() < 0 || step->get_int64() > step_most)
    return Error{ErrorKind::bad_input, where + ": step is missing or invalid"};
  const json::object& o = v.get_object();
  MetricLine line{.step = static_cast<u64>(step->get_int64())};
  for (u32 i = 0; i < metric_count; ++i) {
    const Metric metric = static_cast<Metric>(i);
    const std::string_view key = name(metric);
    if (!o.contains(json::string_view(key.data(), key.size()))) continue;
    const double value = number(o, key);
    const bool is_loss = metric == Metric::loss || metric == Metric::eval_loss;
    if (is_loss && !may_be_loss(value))
      return Error{ErrorKind::bad_input, fmt::format("{}: {} {:g} cannot be a loss", where, key, value)};
    if (const double most = info(metric).most; !is_loss && std::isfinite(most) && (value < 0 || value > most))
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: {}, {:g}, is not 0 to {:g}", where, key, value, most)};
    line.metrics.set(metric, value);
  }
  if (line.metrics.has(Metric::eval_loss)) {
    line.event = LogEvent::evaluation;
    log.evaluations.push_back(line);
  }
  if (!line.metrics.has(Metric::loss)) return {};  // an evaluation, or the final line
  line.event = LogEvent::step;
  line.expert_tokens = expert_tokens_of(o);
  log.steps.push_back(std::move(line));
  return {};
}

json::array token_rows(const ExpertTokens& use) {
  json::array layers;
  for (u64 at = 0; at + use.experts <= use.tokens.size(); at += use.experts) {
    const auto row = use.tokens.begin() + static_cast<std::ptrdiff_t>(at);
    layers.emplace_back(json::array(row, row + use.experts));
  }
  return layers;
}

}  // namespace

Result<StepLog> read_metrics(const std::string& path) {
  StepLog log;
  if (!is_named(path)) return log;
  TRY_ASSIGN(const std::string text, read_text_file(path));
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    ++log.lines;
    if (const Result<void> read = read_line(rest.substr(0, end), log); !read) {
      ++log.unreadable;
      if (log.first_fault.empty()) log.first_fault = read.error().message;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (log.unreadable > 0 && log.unreadable == log.lines)
    return Error{ErrorKind::bad_input,
                 fmt::format("{}, {}; no line can be read: remove the file to make the page without it", path,
                             log.first_fault)};
  return log;
}

std::string to_json_line(const MetricLine& line) {
  json::object o;
  o["step"] = line.step;
  line.metrics.each([&](Metric metric, double value) {
    o[json::string_view(name(metric).data(), name(metric).size())] = value;
  });
  if (line.expert_tokens) {
    o["expert_token_steps"] = line.expert_tokens->steps;
    o["expert_tokens"] = token_rows(*line.expert_tokens);
  }
  return json_text(o, JsonStyle::line);
}

namespace {

class JsonlSink final : public MetricSink {
 public:
  explicit JsonlSink(AppendLog log) : log_(std::move(log)) {}
  Result<void> append(const MetricLine& line) override { return log_.append(to_json_line(line) + "\n"); }
  Result<void> sync() override { return log_.sync(); }

 private:
  AppendLog log_;
};

}  // namespace

// An incomplete last line is dropped too.
Result<std::unique_ptr<MetricSink>> open_jsonl_sink(const std::string& run_dir, u64 steps_done) {
  const std::string path = run_dir + "/metrics.jsonl";
  if (is_named(path)) {
    TRY_ASSIGN(const std::string text, read_text_file(path));
    TRY(replace_file(path, kept_lines(text, steps_done), FileUse::run));
  }
  TRY_ASSIGN(AppendLog log, AppendLog::open(path, FileUse::run));
  return std::unique_ptr<MetricSink>(std::make_unique<JsonlSink>(std::move(log)));
}

}  // namespace tidepool
