#include "cli/plan_largest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/units.h"
#include "fit/outlook.h"
#include "fit/plan_run.h"
#include "report/print_text.h"
#include "report/screen.h"
#include "report/status_line.h"

namespace tidepool {
namespace {

// GPT-3's proportions: heads of 128, one layer per head.
constexpr u32 head_width = 128, largest_heads = 256;

// RETURNS: the number of kv heads for `heads` query heads. As many query heads share a kv head as in the
// config, or the next smaller number that divides `heads`.
u32 kv_heads_of(const ModelConfig& model, u32 heads) {
  u32 shared = model.attention.heads / model.kv_heads();
  while (heads % shared != 0) --shared;
  return heads / shared;
}

// Keeps the number of experts, and their width as a share of the model's.
void size_experts(ModelConfig& model, const ModelConfig& given) {
  Experts& experts = model.experts;
  if (experts.inner_given != 0)
    experts.inner_given =
        static_cast<u32>(round_up(u64{given.experts.inner_given} * model.width / given.width, 64));
  experts.dense_layers = std::min(experts.dense_layers, model.layers - 1);
  std::erase_if(experts.dense, [&](u32 layer) { return layer >= model.layers; });
}

// RETURNS: a model of the config's family with `heads` heads. Values that GPT-3's proportions do not give
// stay as in the config.
ModelConfig sized(const Config& config, u32 heads) {
  ModelConfig model = config.model;
  model.attention.heads = model.layers = heads;
  model.width = heads * head_width;
  if (!style(model.family).shared_key_heads) return model;
  model.attention.kv_heads_given = kv_heads_of(config.model, heads);
  if (model.softmax.head_size_given != 0) model.softmax.head_size_given = head_width;
  if (config.model.mlp.inner_given != 0)
    model.mlp.inner_given =
        static_cast<u32>(round_up(u64{config.model.mlp.inner_given} * model.width / config.model.width, 256));
  size_experts(model, config.model);
  return model;
}

std::string trying(const ModelGraph& graph) {
  return fmt::format(" trying {} parameters: {} layers x {}",
                     count_text(static_cast<double>(graph.parameters)), graph.config.layers,
                     graph.config.width);
}

void print(const Machine& machine, const ModelGraph& graph, const Plan& plan) {
  const bool is_default = graph.config.family == ModelConfig().family;
  const std::string active =
      graph.active_parameters < graph.parameters
          ? fmt::format(" ({} active)", count_text(static_cast<double>(graph.active_parameters)))
          : "";
  print_text(
      " Largest {}of GPT-3 proportions (a layer per head of 128) on {}:\n  {} parameters{}, {} layers x {} "
      "({} "
      "heads), planned and verified\n",
      is_default ? "" : fmt::format("{} model ", name(graph.config.family)), machine.name,
      count_text(static_cast<double>(graph.parameters)), active, graph.config.layers, graph.config.width,
      graph.config.attention.heads);
  for (u32 t = 0; t < tier_count; ++t)
    print_text("  {:<8}{:>12} of {}\n", name(static_cast<Tier>(t)), bytes_text(plan.tiers[t].planned_peak),
               bytes_text(plan.tiers[t].budget));
  print_text("  tokens   {} per step\n", graph.batch.rows() * plan.micro_batches);
}

// RETURNS: options for this model: the device memory reserved beside frames depends on it.
PlanOptions options_for(const Job& job, PlanOptions options) {
  options.advise = false;
  options.device_reserved = job.options.device_reserved;
  return options;
}

Config with_length(Config config, u32 tokens) {
  config.train.sequence_length = tokens;
  return config;
}

// RETURNS: the line of a length that fits.
Result<std::string> line_of(const Config& config, const std::optional<Machine>& machine) {
  TRY_ASSIGN(const Job job, make_job(config));
  TRY_ASSIGN(const RunPlan planned, plan_run(job, PlanFor::machine_of_file, {}, machine));
  const Outlook o = outlook(job.graph, planned);
  const auto peak = [&](Tier tier) {
    return bytes_text(planned.plan.tiers[static_cast<u32>(tier)].planned_peak);
  };
  return fmt::format("  {:>9}{:>12}{:>14}{:>8}{:>11}{:>11}{:>11}\n", config.train.sequence_length,
                     count_text(o.tokens_per_second), seconds_text(planned.forecast->step_seconds),
                     job.graph.batch.pieces(), peak(Tier::device), peak(Tier::host), peak(Tier::disk));
}

// RETURNS: the planner's own refusal of a job that does not fit, with what it needs.
Error why_not(const Config& config, PlanOptions options) {
  const Result<Job> job = make_job(config);
  if (!job) return job.error();
  options.device_reserved = job->options.device_reserved;
  const Result<Plan> plan = make_plan(job->graph, options);
  return plan ? Error{ErrorKind::does_not_fit, "the job does not fit"} : plan.error();
}

// True if a size is too large: it does not fit, or it cannot be planned with these options.
bool is_too_large(const Error& e) { return e.kind == ErrorKind::does_not_fit || e.kind == ErrorKind::usage; }

}  // namespace

Result<Largest> find_largest(const Config& config, const PlanOptions& options, const SizeTried& tried) {
  const auto config_of = [&](u32 size) {
    Config out = config;
    out.model = sized(config, size + 1);
    return out;
  };
  const auto check = [&](u32 size) -> Result<void> {
    TRY_ASSIGN(const Job job, make_job(config_of(size)));
    if (tried) tried(job.graph);
    return check_fits(job.graph, options_for(job, options));
  };
  Error larger;
  u32 fit = 0, fail = largest_heads;  // sizes [0, fit) fit, sizes [fail, largest_heads) do not
  while (fit < fail) {
    const u32 middle = (fit + fail) / 2;
    const Result<void> found = check(middle);
    if (!found && !is_too_large(found.error())) return found.error();
    if (!found) larger = found.error();
    (found ? fit : fail) = found ? middle + 1 : middle;
  }
  if (fit == 0 && larger.kind == ErrorKind::usage) return larger;
  if (fit == 0)
    return Error{ErrorKind::does_not_fit,
                 "not even a model of one layer and width 128 fits: raise memory.device or memory.host"};
  Largest out;
  if (larger.kind == ErrorKind::usage) out.larger = larger.message;
  TRY_ASSIGN(out.job, make_job(config_of(fit - 1)));
  TRY_ASSIGN(out.plan, make_plan(out.job.graph, options_for(out.job, options)));
  return out;
}

Result<void> print_largest(const Config& config, const std::optional<Machine>& machine) {
  TRY_ASSIGN(const Job job, make_job(config));
  TRY_ASSIGN(const RunQuestion question, question_of(job, PlanFor::machine_of_file, machine));
  constexpr std::string_view what = "looking for the largest model";
  StatusLine status;
  TRY_ASSIGN(const Largest largest, find_largest(config, question.options, [&](const ModelGraph& graph) {
               status.show(what, trying(graph), fmt::format("{} ...", what));
             }));
  status.clear();
  print(*question.machine, largest.job.graph, largest.plan);
  if (!largest.larger.empty())
    print_text("{}", wrap_lines("  larger   " + largest.larger, std::min(detect_screen(1).columns, 80u)));
  return {};
}

std::vector<u32> lengths_to_try(u32 longest) {
  constexpr u32 shortest = 256, per_octave = 4;
  std::vector<u32> lengths;
  for (u64 octave = shortest; octave < longest; octave *= 2)
    for (u32 i = 0; i < per_octave; ++i)
      if (const u64 length = octave + octave / per_octave * i; length < longest)
        lengths.push_back(static_cast<u32>(length));
  lengths.push_back(longest);
  return lengths;
}

Result<Longest> find_longest(const Config& config, const PlanOptions& options,
                             const std::function<void(u32 tokens)>& tried) {
  const std::vector<u32> lengths = lengths_to_try(config.model.longest_sequence());
  Error longer;
  u64 fit = 0, fail = lengths.size();  // of `lengths` the first `fit` fit
  while (fit < fail) {
    const u64 middle = (fit + fail) / 2;
    if (tried) tried(lengths[middle]);
    const Result<Job> job = make_job(with_length(config, lengths[middle]));
    const Result<void> found =
        job ? check_fits(job->graph, options_for(*job, options)) : Result<void>(job.error());
    if (!found && !is_too_large(found.error())) return found.error();
    if (!found) longer = found.error();
    (found ? fit : fail) = found ? middle + 1 : middle;
  }
  if (longer.kind == ErrorKind::does_not_fit) longer = why_not(with_length(config, lengths[fit]), options);
  if (fit == lengths.size()) return Longest{.tokens = lengths.back()};
  longer.message = fmt::format("{} tokens: {}", lengths[fit], longer.message);
  if (fit == 0) return longer;
  return Longest{.tokens = lengths[fit - 1], .longer = longer.message};
}

namespace {

struct Lengthening {
  const char* name;
  Tier tier{};
  bool smaller_state = false;  // instead of a larger budget
};
constexpr Lengthening lengthenings[] = {{"device budget +25%", Tier::device},
                                        {"host budget +25%", Tier::host},
                                        {"disk budget +25%", Tier::disk},
                                        {"8-bit moments", {}, true}};

// RETURNS: a line for each change that applies.
Result<std::string> lengthened(const Config& config, const PlanOptions& options, StatusLine& status) {
  constexpr double more = 1.25;
  const u32 positions = config.model.longest_sequence();
  std::string lines;
  for (const Lengthening& change : lengthenings) {
    Config changed = config;
    PlanOptions with = options;
    if (change.smaller_state) {
      if (config.train.optim != Optim::adamw_torch) continue;
      changed.train.optim = Optim::adamw_8bit;
    } else {
      Bytes& budget = changed.memory.budgets.of(change.tier);
      if (budget == disk_auto || budget.value == 0) continue;
      budget = Bytes{static_cast<u64>(static_cast<double>(budget.value) * more)};
      with.budgets.of(change.tier) = budget;
    }
    TRY_ASSIGN(const Longest longest, find_longest(changed, with, [&](u32 tokens) {
                 status.show(change.name, fmt::format(" {}: trying {} tokens", change.name, tokens),
                             fmt::format("{} ...", change.name));
               }));
    lines += fmt::format("  {:<20}{:>12} tokens{}\n", change.name, longest.tokens,
                         longest.tokens == positions ? ", the model's positions" : "");
  }
  return lines;
}

}  // namespace

Result<void> print_longest(const Config& config, const std::optional<Machine>& machine, bool what_if) {
  TRY_ASSIGN(const Job job, make_job(config));
  TRY_ASSIGN(const RunQuestion question, question_of(job, PlanFor::machine_of_file, machine));
  constexpr std::string_view what = "looking for the longest sequence";
  StatusLine status;
  TRY_ASSIGN(const Longest longest, find_longest(config, question.options, [&](u32 tokens) {
               status.show(what, fmt::format(" trying {} tokens", tokens), fmt::format("{} ...", what));
             }));
  std::string lines;
  constexpr u32 shown_most = 4;
  for (u32 i = 0, tokens = longest.tokens; i < shown_most && (i == 0 || tokens >= 256); ++i, tokens /= 2) {
    TRY_ASSIGN(const std::string line, line_of(with_length(config, tokens), machine));
    lines += line;
  }
  std::string lengths;
  if (what_if) {
    TRY_ASSIGN(lengths, lengthened(config, question.options, status));
  }
  status.clear();
  print_text(" Longest sequences on {}, planned and verified:\n", question.machine->name);
  print_text("  {:>9}{:>12}{:>14}{:>8}{:>11}{:>11}{:>11}\n{}", "tokens", "tokens/s", "step", "pieces",
             "device", "host", "disk", lines);
  const std::string longer =
      longest.longer.empty() ? longest_sequence_text(config.model) + " is the limit" : longest.longer;
  print_text("{}", wrap_lines("  longer   " + longer, std::min(detect_screen(1).columns, 80u)));
  if (!lengths.empty()) print_text("\n What if\n{}", lengths);
  return {};
}

}  // namespace tidepool
