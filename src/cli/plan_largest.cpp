#include "cli/plan_largest.h"

#include <fmt/format.h>

#include "advisor/what_if.h"
#include "report/status_line.h"
#include "report/units.h"
#include "trainer/plan_run.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

// GPT-3's proportions: heads of 128, one layer per head.
constexpr u32 head_width = 128, largest_heads = 256;

Gpt2Config family(const Config& config, u32 heads) {
  Gpt2Config model = config.model;
  model.n_head = model.n_layer = heads;
  model.n_embd = heads * head_width;
  return model;
}

std::string trying(const ModelGraph& graph) {
  return fmt::format(" trying {} parameters: {} layers x {}",
                     count_text(static_cast<double>(graph.parameters)), graph.config.n_layer,
                     graph.config.n_embd);
}

void print(const Machine& machine, const ModelGraph& graph, const Plan& plan) {
  fmt::print(
      " Largest of GPT-3 proportions (a layer per head of 128) on {}:\n  {} parameters, {} layers x {} ({} "
      "heads), planned and verified\n",
      machine.name, count_text(static_cast<double>(graph.parameters)), graph.config.n_layer,
      graph.config.n_embd, graph.config.n_head);
  for (u32 t = 0; t < tier_count; ++t)
    fmt::print("  {:<8}{:>12} of {}\n", name(static_cast<Tier>(t)), bytes_text(plan.tiers[t].planned_peak),
               bytes_text(plan.tiers[t].budget));
  fmt::print("  tokens   {} per step\n", graph.batch.rows() * plan.micro_batches);
}

}  // namespace

Result<void> print_largest(const PlanArguments& arguments) {
  TRY_ASSIGN(const RunQuestion question, question_of(arguments.config, PlanFor::machine_of_file));
  PlanOptions options = question.options;
  options.advise = false;
  constexpr std::string_view what = "looking for the largest model";
  StatusLine status;
  const auto graph_of = [&](u32 size) {
    Config config = arguments.config;
    config.model = family(config, size + 1);
    Result<ModelGraph> graph = make_graph(config);
    if (graph) status.show(what, trying(*graph), fmt::format("{} ...", what));
    return graph;
  };
  TRY_ASSIGN(const std::optional<u32> size, largest_that_fits(largest_heads, options, graph_of));
  if (!size) return Error{ErrorKind::does_not_fit, "not even a model of one layer and 128 columns fits"};
  TRY_ASSIGN(const ModelGraph graph, graph_of(*size));
  TRY_ASSIGN(const Plan plan, make_plan(graph, options));
  status.clear();
  print(*question.machine, graph, plan);
  return {};
}

}  // namespace tidepool
