#include "report/metrics_log.h"

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

double number(const json::object& o, const char* key) {
  const json::value* v = o.if_contains(key);
  return v != nullptr && v->is_number() ? v->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Limit of plausible steps: a higher number means that the file was edited.
constexpr i64 step_most = i64{1} << 53;
struct Limit {
  const char* key;
  double most;
};
constexpr Limit limits[] = {{"epoch", 1e12},
                            {"grad_norm", 1e39},
                            {"learning_rate", 1e9},
                            {"train_tokens_per_second", 1e18},
                            {"step_seconds", 1e11}};

constexpr u64 rows_most = 4096;  // layers

// RETURNS: the routing in a step's line; none if the line has no routing, or one that cannot be.
std::optional<RouterMetrics> router_of(const json::object& o) {
  if (!o.contains(router_curves[0].name())) return std::nullopt;
  RouterMetrics out;
  for (const RouterCurve& curve : router_curves) out.*curve.value = number(o, curve.name());
  return out;
}

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

// Adds the line to `log.steps` if it describes a step.
// Error: the fault of the line.
Result<void> read_line(std::string_view line, StepLog& log) {
  const std::string where = fmt::format("line {}", log.lines);
  TRY_ASSIGN(const json::value v, parse_json(line, ErrorKind::bad_input, where));
  const json::value* step = v.is_object() ? v.get_object().if_contains("step") : nullptr;
  if (step == nullptr || !step->is_int64() || step->get_int64() < 0 || step->get_int64() > step_most)
    return Error{ErrorKind::bad_input, where + ": step is missing or invalid"};
  const json::object& o = v.get_object();
  for (const char* key : {"loss", "eval_loss"})
    if (!may_be_loss(number(o, key)))
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: {} {:g} cannot be a loss", where, key, number(o, key))};
  for (const auto& [key, most] : limits)
    if (const double d = number(o, key); d < 0 || d > most)
      return Error{ErrorKind::bad_input, fmt::format("{}: {}, {:g}, is not 0 to {:g}", where, key, d, most)};
  const u64 number_of_step = static_cast<u64>(step->get_int64());
  if (o.contains("eval_loss"))
    log.evaluations.push_back({.step = number_of_step,
                               .epoch = number(o, "epoch"),
                               .eval_loss = number(o, "eval_loss"),
                               .eval_seconds = number(o, "eval_runtime")});
  if (!o.contains("loss")) return {};  // an evaluation, or the final line
  log.steps.push_back(
      {.step = number_of_step,
       .epoch = number(o, "epoch"),
       .loss = number(o, "loss"),
       .grad_norm = number(o, "grad_norm"),
       .learning_rate = number(o, "learning_rate"),
       .train_tokens_per_second = number(o, "train_tokens_per_second"),
       .step_seconds = number(o, "step_seconds"),
       .loss_scale = o.contains("loss_scale") ? std::optional(number(o, "loss_scale")) : std::nullopt,
       .router = router_of(o),
       .expert_tokens = expert_tokens_of(o)});
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

Result<StepLog> read_step_metrics(const std::string& path) {
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

std::string to_json_line(const StepMetrics& m) {
  json::object o;
  o["step"] = m.step;
  o["epoch"] = m.epoch;
  o["loss"] = m.loss;
  o["grad_norm"] = m.grad_norm;
  o["learning_rate"] = m.learning_rate;
  o["train_tokens_per_second"] = m.train_tokens_per_second;
  o["step_seconds"] = m.step_seconds;
  if (m.loss_scale) o["loss_scale"] = *m.loss_scale;
  if (m.router)
    for (const RouterCurve& curve : router_curves) o[curve.name()] = (*m.router).*curve.value;
  if (m.expert_tokens) {
    o["expert_token_steps"] = m.expert_tokens->steps;
    o["expert_tokens"] = token_rows(*m.expert_tokens);
  }
  return json_text(o, JsonStyle::line);
}

std::string to_json_line(const EvalMetrics& m) {
  json::object o;
  o["step"] = m.step;
  o["epoch"] = m.epoch;
  o["eval_loss"] = m.eval_loss;
  o["perplexity"] = std::exp(m.eval_loss);
  o["eval_runtime"] = m.eval_seconds;
  return json_text(o, JsonStyle::line);
}

std::string to_json_line(const TrainMetrics& m) {
  json::object o;
  o["step"] = m.step;
  o["train_runtime"] = m.train_runtime;
  o["train_tokens_per_second"] = m.train_tokens_per_second;
  o["train_loss"] = m.train_loss;
  return json_text(o, JsonStyle::line);
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(const std::string& path, u64 keep_through_step) {
  if (is_named(path)) {
    TRY_ASSIGN(const std::string text, read_text_file(path));
    TRY(replace_file(path, kept_lines(text, keep_through_step), FileUse::run));
  }
  TRY_ASSIGN(AppendLog log, AppendLog::open(path, FileUse::run));
  return std::unique_ptr<MetricsLog>(new MetricsLog(std::move(log)));
}

}  // namespace tidepool
