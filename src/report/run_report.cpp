// Writes report.json.
#include "report/run_report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "base/check.h"
#include "base/json/text.h"
#include "base/write_file.h"
#include "report/metrics.h"
#include "report/text_file.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr const char* report_file = "report.json";

json::string_view view(std::string_view s) { return {s.data(), s.size()}; }

template <class T>
json::array array_of(const std::vector<T>& values) {
  return json::array(values.begin(), values.end());
}

json::object object_of(const std::map<std::string, std::string>& values) {
  json::object o;
  for (const auto& [key, value] : values) o[key] = value;
  return o;
}

json::object use_of(const LinkUse& use) {
  return {{"planned_bytes", use.planned.value},
          {"measured_bytes", use.measured.value},
          {"lower_bound_bytes", use.lower_bound.value},
          {"planned_steady_step_bytes", use.planned_steady.value}};
}

json::object links_of(const RunReport& r) {
  json::object out;
  for (u32 i = 0; i < link_count; ++i) out[view(name(static_cast<LinkKind>(i)))] = use_of(r.links[i]);
  return out;
}

json::object tiers_of(const RunReport& r) {
  json::object out;
  for (u32 i = 0; i < tier_count; ++i) {
    out[view(name(static_cast<Tier>(i)))] = {{"budget_bytes", r.tiers[i].budget.value},
                                             {"planned_peak_bytes", r.tiers[i].planned_peak.value},
                                             {"measured_peak_bytes", r.tiers[i].measured_peak.value}};
  }
  return out;
}

json::object exposed_of(const RunReport& r) {
  json::object out;
  for (const ExposedTime& e : r.exposed) out[e.cause] = e.seconds;
  return out;
}

json::object phases_of(const RunReport& r) {
  json::object out;
  for (const PhaseTime& p : r.phases)
    out[p.phase] = {{"seconds", p.seconds}, {"bound_seconds", p.bound_seconds}};
  return out;
}

boost::json::object gpus_of(const RunReport& r) {
  boost::json::object out;
  for (const GpuUse& g : r.gpus)
    out[g.name] = {{"samples", g.samples},   {"watts_mean", g.watts_mean}, {"watts_most", g.watts_most},
                   {"mhz_mean", g.mhz_mean}, {"mhz_least", g.mhz_least},   {"celsius_most", g.celsius_most}};
  return out;
}

json::array rows_of(const std::vector<u64>& tokens, u32 columns) {
  json::array rows;
  for (u64 at = 0; at < tokens.size(); at += columns)
    rows.emplace_back(json::array(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                  tokens.begin() + static_cast<std::ptrdiff_t>(at + columns)));
  return rows;
}

json::array each_of(const ExpertUse& use, double RouterMetrics::*value) {
  json::array out;
  for (const RouterMetrics& m : use.each_step) out.emplace_back(m.*value);
  return out;
}

json::object experts_of(const ExpertUse& use) {
  json::object o;
  o["experts"] = use.experts;
  o["experts_per_token"] = use.chosen;
  o["layers"] = array_of(use.layers);
  o["steps"] = use.steps;
  o["tokens"] = rows_of(use.tokens, use.experts);
  o["last_steps"] = use.last_steps;
  o["last_tokens"] = rows_of(use.last_tokens, use.experts);
  o["dropped_tokens"] = use.dropped;
  for (const RouterMetric& of : router_metrics)
    o[fmt::format("each_{}", name(of.metric))] = each_of(use, of.value);
  return o;
}

}  // namespace

std::string to_json(const RunReport& r) {
  json::object o;
  o["version"] = r.version;
  o["commit"] = r.commit;
  o["model"] = r.model;
  o["precision"] = r.precision;
  o["executor"] = r.executor;
  o["parameters"] = r.parameters;
  o["state_bytes"] = r.state.value;
  o["weights_xxh3"] = r.weights_xxh3;
  o["steps"] = r.steps;
  o["resumed_from_step"] = r.resumed_from_step;
  o["tokens_per_step"] = r.tokens_per_step;
  if (r.tile_tokens > 0)
    o["sequences"] = {{"tile_tokens", r.tile_tokens}, {"tiles", r.tiles}, {"pieces", r.pieces}};
  o["steps_per_epoch"] = r.steps_per_epoch;
  o["tokens"] = r.tokens;
  o["tokens_per_second"] = r.tokens_per_second;
  o["train_seconds"] = r.train_seconds;
  o["step_seconds"] = r.step_seconds;
  o["predicted_step_seconds"] = r.predicted_step_seconds;
  o["predicted_step_seconds_least"] = r.predicted_step_range.least;
  o["predicted_step_seconds_most"] = r.predicted_step_range.most;
  o["flops_per_second"] = r.flops_per_second;
  o["peak_flops_per_second"] = r.peak_flops_per_second;
  o["peak_flops_per_second_least"] = r.peak_range.least;
  o["peak_flops_per_second_most"] = r.peak_range.most;
  o["speed_at_end"] = r.speed_at_end;
  o["binds"] = r.binds;
  o["links"] = links_of(r);
  if (r.comm)
    o["comm"] = {{"planned_bytes", r.comm->planned.value},
                 {"measured_bytes", r.comm->measured.value},
                 {"planned_steady_step_bytes", r.comm->planned_steady.value}};
  if (r.network) {
    o["nodes"] = r.nodes;
    o["network"] = {{"net_send", use_of((*r.network)[0])}, {"net_receive", use_of((*r.network)[1])}};
  }
  o["tiers"] = tiers_of(r);
  o["rss_peak_bytes"] = r.rss_peak.value;
  o["checkpoint_written_bytes"] = r.checkpoint_written.value;
  o["disk_endurance_bytes"] = r.disk_endurance.value;
  o["io_retries"] = r.io_retries;
  if (r.speculated) o["speculation"] = {{"redos", r.redos}, {"redone_steps", r.redone_steps}};
  o["exposed_seconds"] = exposed_of(r);
  o["phases"] = phases_of(r);
  o["phase_steps"] = r.phase_steps;
  if (!r.gpus.empty()) o["gpus"] = gpus_of(r);
  if (r.experts) o["experts"] = experts_of(*r.experts);
  o["machine"] = object_of(r.machine);
  o["config"] = object_of(r.config);
  if (r.loss_scale > 0) o["loss_scale"] = r.loss_scale, o["skipped_steps"] = r.skipped_steps;
  o["eval_steps"] = array_of(r.eval_steps);
  o["eval_losses"] = array_of(r.eval_losses);
  if (!r.eval_figure.empty())
    o["eval_figure"] = r.eval_figure, o["eval_figures"] = array_of(r.eval_figures);
  else if (!r.eval_losses.empty())
    o["perplexity"] = std::exp(r.eval_losses.back());
  if (r.best_step > 0) o["best_step"] = r.best_step, o["best_eval_loss"] = r.best_eval_loss;
  if (!r.best_ranked_by.empty()) o["best_ranked_by"] = r.best_ranked_by;
  if (r.best_eval_step > 0) o["best_eval_step"] = r.best_eval_step;
  if (!r.best_checkpoint.empty()) o["best_checkpoint"] = r.best_checkpoint;
  if (!r.stopped_early.empty()) o["stopped_early"] = r.stopped_early;
  o["losses"] = array_of(r.losses);
  o["each_step_seconds"] = array_of(r.each_step_seconds);
  o["each_grad_norm"] = array_of(r.each_grad_norm);
  o["each_learning_rate"] = array_of(r.each_learning_rate);
  return json_text(o, JsonStyle::pretty);
}

Result<void> write_report(const std::string& run_dir, const RunReport& report) {
  return replace_file(run_dir + "/" + report_file, to_json(report), FileUse::run);
}

Result<RunReport> read_report(const std::string& run_dir) {
  const std::string path = run_dir + "/" + report_file;
  TRY_ASSIGN(const std::string text, read_text_file(path));
  return parse_report(text, path);
}

}  // namespace tidepool
