#include "run/assembly/assemble_report.h"

#include <fmt/format.h>

#include "base/version.h"
#include "config/schema.h"
#include "fit/memory_need.h"
#include "fit/optimizer_groups.h"
#include "fit/phase_bound.h"
#include "objectives/objective.h"
#include "optimizers/optimizer.h"
#include "planner/bound/lower_bound.h"
#include "run/assembly/machine_facts.h"
#include "run/assembly/summary.h"

namespace tidepool {
namespace {

template <class Wanted>
std::map<std::string, std::string> settings_of(const Config& config, Wanted&& wanted) {
  std::map<std::string, std::string> settings;
  for (const Field& field : schema())
    if (wanted(field)) settings[fmt::format("{}.{}", field.section, field.key)] = value_yaml(field, config);
  return settings;
}

}  // namespace

std::string model_text(const ModelConfig& model) {
  return fmt::format("{} {} x {}", name(model.family), model.layers, model.width);
}

namespace {

// The report before anything was measured.
RunReport planned_report(const ModelGraph& graph, const Plan& plan) {
  RunReport report{.version = std::string(version()),
                   .commit = std::string(commit()),
                   .model = model_text(graph.config),
                   .precision = std::string(name(plan.precision)),
                   .executor = shared_by(plan, fmt::format("cpu:{}", plan.devices)),
                   .parameters = graph.parameters,
                   .state = state_bytes(plan),
                   .tokens_per_step = graph.batch.rows() * plan.micro_batches,
                   .tile_tokens = graph.batch.tiled() ? graph.batch.tile_tokens : 0,
                   .tiles = graph.batch.tiles(),
                   .pieces = graph.batch.pieces()};
  const auto bound = lower_bound(plan, graph);
  for (u32 l = 0; l < link_count; ++l) report.links[l].lower_bound = bound[l];
  if (plan.nodes > 1) {
    const LinkUse each{.lower_bound = net_lower_bound(plan, graph)};
    report.nodes = plan.nodes;
    report.network = {each, each};
  }
  for (u32 t = 0; t < tier_count; ++t)
    report.tiers[t] = {.budget = plan.tiers[t].budget, .planned_peak = plan.tiers[t].planned_peak};
  return report;
}

void add_prediction(RunReport& report, const Prediction& prediction, double peak_at_end) {
  if (prediction.seconds.empty()) return;  // nothing was measured
  report.predicted_step_seconds = prediction.forecast.step_seconds;
  report.binds = prediction.forecast.binds;
  report.predicted_step_range = prediction.step_seconds;
  report.peak_flops_per_second = prediction.peak_flops_per_s;
  report.peak_range = prediction.peak_range;
  report.peak_range.add(peak_at_end);
  if (peak_at_end > 0 && prediction.peak_flops_per_s > 0)
    report.speed_at_end = peak_at_end / prediction.peak_flops_per_s;
}

void add_phases(RunReport& report, const ReportParts& parts) {
  if (parts.prediction.seconds.empty()) return;
  const Session& session = parts.session;
  report.phase_steps = parts.meter.phases().steps();
  report.phases = parts.meter.phases().beside(
      phase_bounds({session.plan(), session.graph(), parts.prediction.machine, parts.prediction.seconds}));
}

// Rates that the prediction and the bounds were computed with.
void add_rates_seen(RunReport& report, const ReportParts& parts) {
  if (parts.prediction.seconds.empty()) return;
  const Machine& m = parts.prediction.machine;
  const auto text = [](double rate) { return fmt::format("{:.3g} GB/s", rate / 1e9); };
  report.machine["rate_copy"] = text(m.copies.h2d_bytes_per_s);
  report.machine["rate_adam"] = text(m.host.update_bytes_per_s);
  if (parts.session.disk() == nullptr) return;
  report.machine["rate_disk_read"] = text(m.disk.read_bytes_per_s);
  report.machine["rate_disk_write"] = text(m.disk.write_bytes_per_s);
  report.machine["rate_disk_mixed"] = text(m.disk.mixed_bytes_per_s);
}

// Padding does not count as work: a step that is half padding has half the rate. Prompts do count, although
// nothing is learned from them.
void add_rates(RunReport& report, const ModelGraph& graph, u64 tokens) {
  report.tokens_per_second =
      report.train_seconds > 0 ? static_cast<double>(tokens) / report.train_seconds : 0;
  report.flops_per_second = report.tokens_per_second * static_cast<double>(graph.flops_per_token);
}

// Rules for the tensors that the optimizer is not for read settings, too.
bool reads(Optim optim, std::string_view key) {
  return std::ranges::any_of(update_rules(optim), [&](const UpdateRule& rule) {
    const auto keys = optimizer(rule.optim).keys;
    return std::ranges::find(keys, key) != keys.end();
  });
}

// A setting of another optimizer changes no number. A list without `optim` means adamw_torch.
bool is_of_optimizer(const Field& field, const TrainConfig& train) {
  if (field.key == "optim") return train.optim != Optim::adamw_torch;
  if (field.key == "optim_groups") return true;
  bool of_some = false, read = false;
  for (u32 i = 0; i < optim_count; ++i) of_some |= reads(static_cast<Optim>(i), field.key);
  if (const auto rules = rules_of(train))
    for (const UpdateRule& rule : *rules) read |= reads(rule.optim, field.key);
  return !of_some || read;
}

}  // namespace

std::map<std::string, std::string> effective_settings(const Config& config) {
  return settings_of(config, [&](const Field& field) { return applies(field, config.model.family); });
}

std::map<std::string, std::string> numeric_settings(const Config& config) {
  std::map<std::string, std::string> settings = settings_of(config, [&](const Field& field) {
    if (field.section == "train") return field.key != "speculate" && is_of_optimizer(field, config.train);
    if (field.section == "lora") return config.lora.on() && field.key != "adapter";  // not its path
    if (field.section == "objective") return config.objective.type != ObjectiveType::next_token;
    return field.section == "model" && field.key != "directory" && applies(field, config.model.family);
  });
  settings["machine.executor"] = config.machine.gpus().empty() ? "cpu" : "cuda";
  return settings;
}

void add_losses(RunReport& report, const TrainerState& state) {
  report.losses = state.losses;
  if (state.loss_scale) {
    report.skipped_steps = state.loss_scale->skipped_steps;
    report.loss_scale = state.loss_scale->scale;
  }
  for (const EvalLoss& e : state.eval_losses) {
    report.eval_steps.push_back(e.step);
    report.eval_losses.push_back(e.loss);
    if (!state.eval_figure.empty()) report.eval_figures.push_back(e.figure);
  }
  report.eval_figure = state.eval_figure;
  const EvalLoss* best = best_evaluation(state.eval_losses);
  if (best == nullptr || state.best_step < best->step) return;  // the best state was not saved
  report.best_step = state.best_step;
  report.best_eval_step = best->step;
  report.best_eval_loss = best->loss;
  report.best_ranked_by = best->ranked_by;
}

RunReport assemble_report(const ReportParts& parts) {
  const auto& [config, graph, options] = parts.session.job();
  RunReport report = planned_report(graph, parts.session.plan());
  parts.meter.fill(report);
  // The meter only sees frames. As in the plan, memory that is reserved for the whole run is added.
  report.tiers[static_cast<u32>(Tier::host)].measured_peak += host_reserved();
  report.tiers[static_cast<u32>(Tier::device)].measured_peak += options.device_reserved;
  add_prediction(report, parts.prediction, parts.peak_at_end);
  add_phases(report, parts);
  add_losses(report, parts.state);
  add_rates(report, graph, parts.tokens);
  if (config.output.save) report.weights_xxh3 = fmt::format("{:016x}", parts.weights_xxh3);
  if (!config.machine.gpus().empty())
    report.executor = shared_by(parts.session.plan(), config.machine.executor);
  report.resumed_from_step = parts.resumed_from;
  report.steps_per_epoch = parts.steps_per_epoch;
  report.tokens = parts.state.tokens;
  report.stopped_early = parts.stopped_early;
  if (report.best_step > 0 && config.output.save)
    report.best_checkpoint = fmt::format("{}/checkpoint-{}", config.output.dir, report.best_step);
  report.checkpoint_written = parts.checkpoint_written;
  report.disk_endurance = parts.disk_endurance;
  report.machine = machine_facts(parts.session);
  add_rates_seen(report, parts);
  for (const GpuReadings& g : parts.gpus)
    report.gpus.push_back(
        {g.name, g.samples, g.watts_mean, g.watts_most, g.mhz_mean, g.mhz_least, g.celsius_most});
  report.config = effective_settings(config);
  report.config["command"] = parts.command;
  return report;
}

}  // namespace tidepool
