// `tidepool plan` prints a plan as a table, as text, as JSON or over time, or answers a question about the
// plan.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <map>

#include "base/json/text.h"
#include "base/text/units.h"
#include "base/text/value_text.h"
#include "cli/command.h"
#include "cli/config_words.h"
#include "cli/plan_arguments.h"
#include "cli/plan_largest.h"
#include "cli/plan_refusal.h"
#include "fit/executor_choice.h"
#include "fit/outlook.h"
#include "fit/plan_run.h"
#include "fit/what_if.h"
#include "planner/bound/lower_bound.h"
#include "planner/explain/explain.h"
#include "report/drive_life.h"
#include "report/outlook_text.h"
#include "report/print_text.h"
#include "report/status_line.h"
#include "report/terminal.h"
#include "run/assembly/summary.h"
#include "run/choice_progress.h"
#include "run/open_data.h"
#include "run/references/reference_pass.h"
#include "run/train_length.h"
#include "run/weights/base_model.h"

namespace tidepool {
namespace {

constexpr std::array options_of_plan = {
    Option{"text", "", "the whole plan, one line per operation"},
    Option{"explain", "op:N|chunk:N", "why operation N exists; the life of chunk N"},
    Option{"segment", "NAME", "segment of --explain (body)"},
    Option{"gantt", "", "the lanes of a step over time"},
    Option{"what-if", "", "times, or lengths, with more of each resource"},
    Option{"max", "", "the largest model of GPT-3's proportions that fits"},
    Option{"max-length", "", "the longest sequence that fits, and its speed"},
    Option{"json", "", "one JSON object, also if nothing fits"},
};

constexpr double tera = 1e12;

struct Planned : RunPlan {
  Job job;
  std::optional<Plan> references;  // the forward passes before step 1
};

Result<Planned> make(const PlanArguments& arguments, const std::optional<Machine>& machine) {
  TRY(check_model_is_unchanged(arguments.config));
  Planned out;
  TRY_ASSIGN(out.job, make_job(arguments.config));
  // A machine of a file need not have the reference model.
  if (!machine) {
    TRY_ASSIGN(out.references, plan_references(arguments.config));
  }
  ChoiceProgress progress;
  TRY_ASSIGN(static_cast<RunPlan&>(out),
             plan_run(out.job, PlanFor::machine_of_file, progress.listener(), machine));
  if (out.forecast && arguments.gantt) {
    TRY_ASSIGN(out.forecast, forecast(out.plan, out.job.graph, *out.machine, {.keep_ops = true}));
  }
  return out;
}

// ---- in words ---------------------------------------------------------------------------------------

std::string disk_wear(const Outlook& o, Bytes endurance) {
  if (o.disk_written_per_step.value == 0) return "nothing written in a step";
  std::string text = fmt::format("{} written per step, {} per day", bytes_text(o.disk_written_per_step),
                                 bytes_text(Bytes{static_cast<u64>(o.disk_bytes_per_day)}));
  return text + "; " + drive_life_text(drive_life(endurance, o.disk_bytes_per_day));
}

std::string busiest_text(const TokensToBind& from) {
  if (std::isinf(from.tokens))
    return fmt::format("compute is the busiest at no number of tokens: {} needs longer for each", from.other);
  if (from.tokens < 1) return "compute is the busiest at any number of tokens, by sums of bytes";
  return fmt::format("from {} tokens per step on compute is the busiest, by sums of bytes; below, {}",
                     count_text(std::ceil(from.tokens)), from.other);
}

double exposed_update(const Forecast& f) { return f.exposed_seconds[static_cast<u32>(Cause::update)]; }

std::string early_text(const PlanOptions& options) {
  if (options.early_blocks == 0) return {};
  return fmt::format(", state of the first {} block{} on the device", options.early_blocks,
                     options.early_blocks == 1 ? "" : "s");
}

std::vector<OutlookRow> rows_of(const Planned& p, const Outlook& o, u64 tokens) {
  std::vector<OutlookRow> rows;
  const Forecast& f = *p.forecast;
  rows.push_back({"Step", fmt::format("{}, {}", seconds_text(f.step_seconds), binds_text(f.binds))});
  const char* const any =
      p.plan.parallel == Parallel::layers ? "any plan with these layers on these devices" : "any plan";
  rows.push_back({"Least", fmt::format("{} for {} ({}): {:.2f} x", seconds_text(o.least_step_seconds), any,
                                       o.least_binds, f.step_seconds / o.least_step_seconds)});
  rows.push_back(
      {"Speed", fmt::format("{} tokens/s, {} per step", count_text(o.tokens_per_second), o.tokens_per_step)});
  rows.push_back({"", busiest_text(o.compute_busiest)});
  rows.push_back({"Compute", fmt::format("{:.4g} TFLOP/s per device ({}), {:.0f}% of its best (MFU)",
                                         o.flops_per_second / tera, p.plan.devices * p.plan.nodes,
                                         100 * o.flops_utilization)});
  rows.push_back({"", "counted as 6 N + 12 L H Q T per token, recompute left out"});
  if (tokens > 0)
    rows.push_back({"Training", fmt::format("{} for {} tokens", days_text(o.days * 86'400, 1),
                                            count_text(static_cast<double>(tokens)))});
  rows.push_back({"Disk", disk_wear(o, p.machine->disk.endurance)});
  rows.push_back({"Checkpoint", fmt::format("{} each, saved in about {}", bytes_text(o.checkpoint),
                                            seconds_text(o.save_seconds))});
  std::string waits;
  for (u32 c = 0; c < cause_count; ++c)
    if (f.exposed_seconds[c] > 0.005 * f.step_seconds)
      waits +=
          fmt::format("{}{} {:.0f}%", waits.empty() ? "" : ", ", cause_label(name(static_cast<Cause>(c))),
                      100 * f.exposed_seconds[c] / f.step_seconds);
  rows.push_back({"Time goes", waits});
  rows.push_back(
      {"Optimizer", fmt::format("{} of a step exposed on host updates", seconds_text(exposed_update(f)))});
  rows.push_back({"Chosen", fmt::format("chunks of {}, {} sweep{}{}{}; {} plans compared",
                                        bytes_text(Bytes{4 * p.plan.chunk_elements}), p.plan.sweeps,
                                        p.plan.sweeps == 1 ? "" : "s", parallel_text(p),
                                        early_text(p.options), p.candidates)});
  return rows;
}

std::vector<LaneActivity> lanes_of(const Planned& p) {
  std::map<LaneId, LaneActivity> lanes;
  const Segment& body = p.plan.segment(SegmentKind::body);
  for (const ForecastOp& op : p.forecast->ops) {
    const LaneId id = body.ops[index(op.op)].lane;
    // With data over devices all are alike: shows device 0. With layers shows the wave over all.
    const bool wave = p.plan.parallel == Parallel::layers && id.kind == LaneKind::compute;
    if (id.device != host_device && id.device != 0 && id.kind != LaneKind::comm && !wave) continue;
    LaneActivity& lane = lanes[id];
    lane.name = id.kind == LaneKind::host ? "host updates" : std::string(name(id.kind));
    if (wave || (p.plan.parallel == Parallel::layers && id.device == 0))
      lane.name += fmt::format(" {}", id.device);
    const auto seconds = [&](Nanos at) {
      return static_cast<double>(static_cast<i64>(at.value) - p.forecast->norm_before_ns) * 1e-9;
    };
    lane.busy.emplace_back(seconds(op.started), seconds(op.finished));
  }
  std::vector<LaneActivity> out;
  for (auto& [id, lane] : lanes) out.push_back(std::move(lane));
  return out;
}

// RETURNS: the gain in percent; a gain that would print as "-0.0" is 0.
double gain_percent(double times) {
  const double percent = 100 * (times - 1);
  return std::abs(percent) < 0.05 ? 0 : percent;
}

Result<void> print_what_if(const Planned& p) {
  StatusLine status;
  const auto tried = [&](u32 number, u32 of, std::string_view change) {
    constexpr std::string_view what = "planning with more of each resource";
    status.show(what, fmt::format(" what if: {} of {}: {}", number, of, change), fmt::format("{} ...", what));
  };
  TRY_ASSIGN(const std::vector<WhatIf> all, what_if(p.job.graph, p, tried));
  status.clear();
  print_text("\n What if\n");
  for (const WhatIf& w : all) {
    if (w.step_seconds == 0)
      print_text("  {:<20}{:>10}\n", w.change, "does not fit");
    else
      print_text("  {:<20}{:>10}   {:>+6.1f}% tokens/s   {}\n", w.change, seconds_text(w.step_seconds),
                 gain_percent(w.tokens * p.forecast->step_seconds / w.step_seconds), binds_text(w.binds));
  }
  return {};
}

boost::json::object tiers_json(const Plan& plan) {
  boost::json::object out;
  for (u32 t = 0; t < tier_count; ++t)
    out[name(static_cast<Tier>(t))] = {{"budget_bytes", plan.tiers[t].budget.value},
                                       {"planned_peak_bytes", plan.tiers[t].planned_peak.value}};
  return out;
}

boost::json::object json_of(const Planned& p, u64 tokens) {
  boost::json::object out;
  out["fits"] = true;
  out["parameters"] = p.job.graph.parameters;
  out["active_parameters"] = p.job.graph.active_parameters;
  out["quantization"] = boost::json::string_view(name(p.job.graph.config.quantization.packing));
  out["devices"] = p.plan.devices;
  out["parallel"] = boost::json::string_view(name(p.plan.parallel));
  if (p.plan.nodes > 1) {
    const NetBytes net = net_bytes(p.plan, SegmentKind::body);
    out["nodes"] = p.plan.nodes;
    out["network"] = {{"sent_bytes", net.sent.value},
                      {"received_bytes", net.received.value},
                      {"lower_bound_bytes", net_lower_bound(p.plan, p.job.graph).value}};
  }
  out["sweeps"] = p.plan.sweeps;
  if (const BatchShape& batch = p.job.graph.batch; batch.tiled())
    out["sequences"] = {
        {"tile_tokens", batch.tile_tokens}, {"tiles", batch.tiles()}, {"pieces", batch.pieces()}};
  if (p.job.graph.experts_per_group > 0) out["experts_per_group"] = p.job.graph.experts_per_group;
  out["chunk_bytes"] = 4 * p.plan.chunk_elements;
  const auto moved = link_bytes(p.plan, SegmentKind::body), least = lower_bound(p.plan, p.job.graph);
  boost::json::object links;
  for (u32 l = 0; l < link_count; ++l)
    links[name(static_cast<LinkKind>(l))] = {{"planned_bytes", moved[l].value},
                                             {"lower_bound_bytes", least[l].value}};
  out["links"] = std::move(links);
  if (const auto weighed_least = weighed_lower_bound(p.plan, p.job.graph))
    out["weighed_links"] = {{"planned_bytes", weighed(moved)}, {"lower_bound_bytes", *weighed_least}};
  out["tiers"] = tiers_json(p.plan);
  if (p.references) out["reference_pass"] = {{"tiers", tiers_json(*p.references)}};
  if (!p.forecast) return out;
  const Outlook o = outlook(p.job.graph, p, tokens);
  out["machine"] = p.machine->name;
  out["predicted_step_seconds"] = p.forecast->step_seconds;
  out["least_step_seconds"] = o.least_step_seconds;
  out["binds"] = p.forecast->binds;
  out["tokens_per_step"] = o.tokens_per_step;
  out["tokens_per_second"] = o.tokens_per_second;
  out["compute_busiest_from_tokens"] = std::isinf(o.compute_busiest.tokens)
                                           ? nullptr
                                           : boost::json::value(std::ceil(o.compute_busiest.tokens));
  out["flops_per_second_per_device"] = o.flops_per_second;
  out["mfu"] = o.flops_utilization;
  out["exposed_optimizer_seconds"] = exposed_update(*p.forecast);
  boost::json::object exposed;
  for (u32 c = 0; c < cause_count; ++c) exposed[name(static_cast<Cause>(c))] = p.forecast->exposed_seconds[c];
  out["exposed_seconds"] = std::move(exposed);  // their sum is the step
  out["early_blocks"] = p.options.early_blocks;
  if (tokens > 0) out["days"] = o.days;
  out["disk_bytes_per_day"] = o.disk_bytes_per_day;
  const Bytes endurance = p.machine->disk.endurance;
  out["disk_endurance_bytes"] = endurance.value > 0 ? boost::json::value(endurance.value) : nullptr;
  out["drive_life_years"] = o.drive_life_years > 0 ? boost::json::value(o.drive_life_years) : nullptr;
  out["checkpoint_bytes"] = o.checkpoint.value;
  out["save_seconds"] = o.save_seconds;
  out["candidates"] = p.candidates;
  return out;
}

std::string references_text(const Plan& pass, const ObjectiveConfig& objective) {
  const bool taught = !objective.teacher.empty();
  const auto peak = [&](Tier tier) { return bytes_text(pass.tiers[static_cast<u32>(tier)].planned_peak); };
  return fmt::format(
      "before step 1 the {} runs forward over the documents, in these budgets: "
      "device {}, host {}, disk {}; it leaves {} bytes per token beside their cache",
      taught ? "teacher" : "reference model", peak(Tier::device), peak(Tier::host), peak(Tier::disk),
      sizeof(float) * (taught ? objective_rule(objective).divergence.numbers() : 1));
}

// REQUIRES: check_plan_arguments() accepted `given`.
Result<void> plan(const PlanArguments& given) {
  PlanArguments arguments = given;
  TRY_ASSIGN(const std::optional<Machine> machine, machine_of_file(given.config));
  // A machine file's values take precedence over this machine's.
  arguments.config = on_machine(given.config, machine);
  TRY(resolve_executor(arguments.config));
  look_at_rows(arguments.config);
  if (arguments.largest) return print_largest(arguments.config, machine);
  if (arguments.longest) return print_longest(arguments.config, machine, arguments.what_if);
  Result<Planned> made = make(arguments, machine);
  if (!made) {
    if (arguments.json) print_text("{}", refusal_json(made.error()));
    return made.error();
  }
  const Planned& p = *made;
  if (!arguments.explain.empty()) {
    TRY_ASSIGN(const std::string text,
               explain({.plan = p.plan, .graph = p.job.graph, .home = p.options.home},
                       arguments.segment.empty() ? "body" : arguments.segment, arguments.explain));
    print_text("{}", wrap_lines(text, std::min(detect_screen(1).columns, 80u)));
    return {};
  }
  if (arguments.json) {
    boost::json::object out = json_of(p, arguments.tokens);
    if (const std::optional<u64> epoch = steps_per_epoch_at_hand(p.job)) out["steps_per_epoch"] = *epoch;
    print_text("{}", json_text(out, JsonStyle::pretty));
    return {};
  }
  if (arguments.text) {
    print_text("{}", plan_text(arguments.config, p.plan));
    return {};
  }
  const Screen screen = detect_screen(1);
  PlanSummary summary =
      summarize({.job = p.job, .plan = p.plan, .machine = p.machine ? &*p.machine : nullptr});
  if (const std::optional<u64> epoch = steps_per_epoch_at_hand(p.job))
    summary.notes.push_back(train_length_text(arguments.config.train, *epoch));
  if (p.references) summary.notes.push_back(references_text(*p.references, arguments.config.objective));
  print_text("{}", render_plan(summary, screen));
  if (!p.forecast) return {};
  const Outlook o = outlook(p.job.graph, p, arguments.tokens);
  print_text("{}", render_outlook(p.machine->name, rows_of(p, o, arguments.tokens), screen));
  if (arguments.gantt) print_text("{}", render_gantt(lanes_of(p), p.forecast->step_seconds, screen));
  if (arguments.what_if) TRY(print_what_if(p));
  return {};
}

// Parses the words of `plan`. tokens=N is an argument of the command, no key of the config.
Result<void> run_plan(const Arguments& arguments) {
  PlanArguments out{.text = arguments.has("text"),
                    .explain = arguments.text("explain"),
                    .segment = arguments.text("segment"),
                    .json = arguments.has("json"),
                    .gantt = arguments.has("gantt"),
                    .what_if = arguments.has("what-if"),
                    .largest = arguments.has("max"),
                    .longest = arguments.has("max-length")};
  std::vector<std::string> words;
  for (const std::string& word : arguments.positional()) {
    if (word.starts_with("tokens=")) {
      const auto tokens = parse_count(word.substr(7));
      if (!tokens)
        return usage_error(
            fmt::format("{}: {}; write for example tokens=300B", word, tokens.error().message));
      if (*tokens == 0)
        return usage_error(fmt::format("{}: at least 1; write for example tokens=300B", word));
      out.tokens = *tokens;
    } else {
      words.push_back(word);
    }
  }
  if (arguments.has("explain") && out.explain.empty())
    return usage_error("--explain: write op:N or chunk:N, for example --explain op:0");
  TRY_ASSIGN(out.config, config_of(words));
  TRY(check_plan_arguments(out));
  return plan(out);
}

}  // namespace

constinit const Command plan_command = {
    .name = "plan",
    .words = "CONFIG.yaml [machine=FILE] [tokens=300B] [key=value ...]",
    .summary = "show what training would do, without training",
    .options = options_of_plan,
    .least_words = 1,
    .run = run_plan,
    .more = override_help,
};

}  // namespace tidepool
