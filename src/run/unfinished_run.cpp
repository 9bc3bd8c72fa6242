#include "run/unfinished_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/median.h"
#include "base/text/path_text.h"
#include "base/text/units.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "io/directory_lock.h"
#include "report/sinks/jsonl.h"
#include "run/assembly/assemble_report.h"
#include "run/directory/run_directory.h"
#include "run/train_length.h"

namespace tidepool {
namespace {

constexpr u64 logged_steps_max = 1'000'000'000;  // more than this: the file was edited

void add_config(RunReport& report, const Job& job) {
  const auto& [config, graph, options] = job;
  report.model = model_text(graph.config);
  report.precision = std::string(name(graph.precision));
  report.executor = config.machine.executor;
  report.parameters = graph.parameters;
  report.tokens_per_step = u64{graph.batch.rows()} * options.micro_batches;
  report.config = effective_settings(config);
}

// Adds the logged steps. Steps that were not logged have no loss.
void add_steps(RunReport& report, const StepLog& log) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  report.steps = log.steps.back().step;
  report.losses.assign(report.steps, unknown);
  report.each_step_seconds.assign(report.steps, unknown);
  std::vector<double> seconds;
  double tokens = 0, logged_seconds = 0;
  for (const MetricLine& line : log.steps) {
    if (line.step == 0 || line.step > report.steps) continue;  // a line that was edited
    const double took = line.metrics[Metric::step_seconds];
    report.losses[line.step - 1] = line.metrics[Metric::loss];
    report.each_step_seconds[line.step - 1] = took;
    if (!(took > 0)) continue;
    seconds.push_back(took);
    logged_seconds += took;
    tokens += line.metrics[Metric::train_tokens_per_second] * took;
  }
  if (!seconds.empty()) {
    report.step_seconds = median(seconds);
    report.tokens_per_second = tokens / logged_seconds;
    const double share = static_cast<double>(report.steps) / static_cast<double>(seconds.size());
    report.train_seconds = logged_seconds * share;
    report.tokens = static_cast<u64>(tokens * share);
  }
  const MetricLine& last = log.steps.back();
  if (const double epoch = last.metrics[Metric::epoch]; epoch > 0)
    report.steps_per_epoch = static_cast<u64>(std::lround(static_cast<double>(last.step) / epoch));
  for (const MetricLine& line : log.evaluations) {
    report.eval_steps.push_back(line.step);
    report.eval_losses.push_back(line.metrics[Metric::eval_loss]);
    for (const Metric figure : {Metric::eval_accuracy, Metric::eval_rewards_accuracies}) {
      if (!line.metrics.has(figure)) continue;
      report.eval_figure = name(figure);
      report.eval_figures.push_back(line.metrics[figure]);
    }
  }
}

// Adds the tokens per expert that were logged last.
void add_experts(RunReport& report, const StepLog& log, const ModelGraph& graph) {
  ExpertUse use{.experts = graph.config.experts.count, .chosen = graph.config.experts.chosen};
  for (const Block& block : graph.blocks)
    if (block.kind == BlockKind::attention) use.layers.push_back(block.layer);
  for (const MetricLine& m : log.steps)
    if (m.expert_tokens && m.expert_tokens->experts == use.experts &&
        m.expert_tokens->tokens.size() == use.layers.size() * use.experts)
      use.steps = m.expert_tokens->steps, use.tokens = m.expert_tokens->tokens;
  if (use.steps == 0) return;
  use.last_tokens.resize(use.tokens.size());
  report.experts = std::move(use);
}

std::string state_text(const RunReport& report, const Config& config, std::optional<long> holder) {
  const Result<u64> known = steps_to_train(config.train, std::max<u64>(report.steps_per_epoch, 1));
  const u64 all = known ? *known : report.steps;
  const std::string at = fmt::format("step {} of {}", report.steps, all);
  if (!holder)
    return fmt::format(
        "ended without a report after {}: the run was killed, or the machine went down; resume with  "
        "tidepool train CONFIG --resume auto",
        at);
  const u64 left = all - std::min(all, report.steps);
  return fmt::format("still trains (pid {}): {}, about {} left; the report shows the steps logged so far",
                     *holder, at, seconds_text(static_cast<double>(left) * report.step_seconds));
}

// RETURNS: true if report.json covers the last logged step. False if a later process resumed the run, and was
// killed before its own report. An unreadable report counts as final: read_run() names its fault.
bool is_final(const Result<RunReport>& report, const StepLog& log) {
  return !report || log.steps.empty() || log.steps.back().step <= report->resumed_from_step + report->steps;
}

}  // namespace

Result<std::optional<RunFiles>> read_if_unfinished(const std::string& run_dir) {
  const std::optional<long> holder = lock_holder(run_dir, run_lock_name);
  TRY_ASSIGN(const StepLog log, read_metrics(run_dir + "/metrics.jsonl"));
  if (!holder && is_named(run_dir + "/report.json") && is_final(read_report(run_dir), log))
    return std::optional<RunFiles>();
  if (log.steps.empty()) {
    if (!holder) return std::optional<RunFiles>();
    return Error{ErrorKind::usage, fmt::format("{} trains (pid {}) and has not logged a step yet: try again "
                                               "after its first step",
                                               run_dir, *holder)};
  }
  if (log.steps.back().step > logged_steps_max)
    return Error{ErrorKind::bad_input, fmt::format("{}/metrics.jsonl: step {} is more than any run has: fix "
                                                   "the line, or remove it",
                                                   run_dir, log.steps.back().step)};
  TRY_ASSIGN(Config config,
             load_config(run_dir + "/config.yaml", {"output.dir=" + run_dir}, KeptModel::read));
  TRY_ASSIGN(const Job job, make_job(std::move(config)));
  RunReport report;
  add_config(report, job);
  add_steps(report, log);
  add_experts(report, log, job.graph);
  report.flops_per_second = report.tokens_per_second * static_cast<double>(job.graph.flops_per_token);
  std::string state = state_text(report, job.config, holder);
  TRY_ASSIGN(RunFiles run, read_unfinished_run(run_dir, std::move(report), std::move(state)));
  return std::optional(std::move(run));
}

}  // namespace tidepool
