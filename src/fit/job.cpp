#include "fit/job.h"

#include <optional>
#include <utility>

#include "executor/gpu_reserved.h"
#include "fit/graph_sizes.h"
#include "fit/memory_need.h"
#include "fit/optimizer_groups.h"
#include "model/blocks.h"
#include "objectives/objective.h"
#include "optimizers/optimizer.h"
#include "tidepool/model_config.h"

namespace tidepool {
namespace {

// Limits a search for sizes that fit. Sizes that it does not come to are taken not to fit.
constexpr u64 sizes_ops_max = 100'000;

Result<ModelGraph> graph_of(const Config& config, const GraphSizes& sizes, std::vector<UpdateRule> rules,
                            TargetOutput output) {
  LoraConfig lora = config.lora;
  lora.base = config.model_directory;
  // Kernels on GPUs have no strides for an adapter of gate or up alone.
  if (!config.machine.gpus().empty())
    for (const LayerAdapters& layer : layer_adapters(config.model, lora))
      if (layer.experts.form == AdapterForm::single)
        return Error{ErrorKind::usage,
                     "lora.target_modules: on a GPU, experts get adapters through lora.target_parameters "
                     "(mlp.experts.gate_up_proj, mlp.experts.down_proj); or set machine.executor=cpu"};
  ObjectiveRule objective = objective_rule(config.objective);
  objective.output = output;
  return build_model(config.model, config.train.precision,
                     {.sequences = config.train.per_device_train_batch_size,
                      .tokens = config.train.sequence_length,
                      .packed = packs_documents(config),
                      .holes = config.data.units.shares,
                      .tile_tokens = tile_tokens(config),
                      .piece_tiles = sizes.piece_tiles},
                     activations_of(config), lora, sizes.experts_per_group, std::move(rules), objective);
}

bool speculates(const Config& config) {
  return config.train.speculate == SpeculatePolicy::on && norm_counts(config);
}

// A run that keeps nothing needs no second version.
u32 versions_asked(const Config& config) {
  if (config.memory.versions == 0 && !config.output.save && speculates(config)) return 2;
  return config.memory.versions == 0 && !config.output.save ? 1 : config.memory.versions;
}

Job derive(Config config, ModelGraph graph) {
  const u32 devices = config.machine.devices();
  const u32 micro_batches = config.train.gradient_accumulation_steps * devices * config.machine.nodes;
  const bool on_gpus = !config.machine.gpus().empty(),
             in_layers = config.machine.parallel == Parallel::layers;
  const PlanOptions options{
      .budgets = config.memory.budgets,
      .micro_batches = micro_batches,
      .devices = devices,
      .parallel = devices > 1 && in_layers ? Parallel::layers : Parallel::data,
      .nodes = config.machine.nodes,
      .node = config.machine.node,
      .clipping = config.train.max_grad_norm > 0,
      .home = config.memory.home,
      .recompute = config.train.recompute,
      .chunk_bytes = config.memory.chunk_size,
      .sweeps = config.memory.sweeps,
      .lookahead = config.memory.lookahead,
      .device_reserved = on_gpus ? gpu_reserved(graph, micro_batches, devices).total() : Bytes{0},
      .host_reserved = host_reserved(),
      .versions = versions_asked(config),
      .speculates = speculates(config),
      .lookup = config.memory.lookup};
  return {.config = std::move(config), .graph = std::move(graph), .options = options};
}

// Sizes that the config leaves open are halved until the job fits. If none fits, they are the smallest: what
// these lack is what the job lacks. `prepare`: completes a graph.
template <class Prepare>
Result<Job> fitting_job(const Config& config, TargetOutput output, Prepare&& prepare) {
  TRY_ASSIGN(const std::vector<UpdateRule> rules, rules_of(config.train));
  const auto job_with = [&](const GraphSizes& sizes) -> Result<Job> {
    TRY_ASSIGN(ModelGraph graph, graph_of(config, sizes, rules, output));
    TRY(prepare(graph));
    return derive(config, std::move(graph));
  };
  TRY_ASSIGN(Job job, job_with(usual_sizes(config, rules)));
  std::optional<Job> larger;
  SearchWork work{.ops_max = sizes_ops_max};
  for (;;) {
    const std::optional<GraphSizes> smaller = smaller_sizes(config, job.graph);
    if (!smaller && !larger) return job;  // nothing is left open
    PlanOptions options = job.options;
    options.advise = false;
    const Result<void> found = check_fits(job.graph, options, &work);
    const bool is_possible = found || found.error().kind == ErrorKind::does_not_fit;
    if (!is_possible && larger) return *std::move(larger);  // smaller pieces are too many
    if (found || !is_possible || !smaller) return job;
    TRY_ASSIGN(Job next, job_with(*smaller));
    larger = std::exchange(job, std::move(next));
  }
}

}  // namespace

Result<Job> make_job(Config config) {
  return fitting_job(config, TargetOutput::nothing, [&](ModelGraph& graph) {
    graph.neftune_alpha = config.train.neftune_noise_alpha;
    return check_groups(config.train, graph);
  });
}

Result<Job> make_forward_job(Config config, TargetOutput output) {
  return fitting_job(config, output, [](ModelGraph& graph) -> Result<void> {
    for (Window& window : graph.windows) window.trainable = false;
    return {};
  });
}

Job with_steps(Job job, u64 max_steps) {
  job.config.train.max_steps = max_steps;
  return job;
}

bool packs_documents(const Config& config) {
  if (objective(config.objective.type).units()) return true;  // a unit's sequences share a row
  return config.data.packing && config.data.rows_are_shared.value_or(true) && can_pack(config.model.family);
}

bool norm_counts(const Config& config) {
  return config.train.max_grad_norm > 0 || config.train.precision == Precision::fp16;
}

bool scale_is_late(const Config& config) {
  return config.train.precision == Precision::fp16 && !config.machine.gpus().empty();
}

}  // namespace tidepool
