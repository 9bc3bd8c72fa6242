#include "fit/job.h"

#include <algorithm>

#include "executor/gpu_reserved.h"
#include "fit/memory_need.h"
#include "fit/optimizer_groups.h"
#include "kernels/gradient/gradient.h"
#include "model/blocks.h"
#include "model/mlps/experts/expert_windows.h"
#include "objectives/objective.h"
#include "optimizers/optimizer.h"
#include "tidepool/model_config.h"

namespace tidepool {
namespace {

// Bytes on the device of a parameter that streams: two of it, and its gradient if it is trained.
u64 streamed_bytes(Precision precision, bool trained) {
  const u64 gradient = sizeof(float) + (precision == Precision::fp32 ? 0 : value_bytes(precision));
  return 2 * value_bytes(precision) + (trained ? gradient : 0);
}

// Bytes on the device of an expert's adapters: two of everything, as for other windows that stream.
u64 adapter_bytes_of_expert(const Config& config) {
  u64 most = 0;
  for (const LayerAdapters& layer : layer_adapters(config.model, config.lora)) {
    u64 elements = 0;
    for (const ExpertAdapter& adapter : layer.experts)
      elements += u64{adapter.r} * (adapter.in + adapter.out);
    most = std::max(most, round_up(elements, norm_granule_elements));
  }
  return streamed_bytes(config.train.precision, true) * most;
}

u32 experts_together(const Config& config, const std::vector<UpdateRule>& rules) {
  const ModelConfig& model = config.model;
  if (model.experts.count == 0) return 0;
  if (config.memory.experts_per_group != 0)
    return std::min(config.memory.experts_per_group, model.experts.count);
  const u64 element = streamed_bytes(config.train.precision, !config.lora.on());
  const u64 elements = expert_elements(model, config.train.precision, rules);
  const u64 expert = element * elements + adapter_bytes_of_expert(config);
  u32 group = model.experts.count;
  while (group > 1 && group * expert > config.memory.budgets.device.value / 4) group = (group + 1) / 2;
  return group;
}

// GPUs keep activations in the precision of their matrix units.
Precision activations_of(const Config& config) {
  return config.machine.gpus().empty() ? Precision::fp32 : config.train.precision;
}

u32 tile_tokens(const Config& config) {
  if (config.train.tile_tokens != 0) return config.train.tile_tokens;
  return default_tile_tokens(!config.machine.gpus().empty());
}

// Tiles of an op. 0: all of a micro-batch.
u32 piece_tiles(const Config& config) {
  const u64 tile = tile_tokens(config), tokens = config.train.sequence_length;
  if (tile == 0 || tile >= tokens) return 0;
  constexpr u64 pieces_at_once = 6, part = 4;
  u64 tiles = div_up(config.memory.piece_tokens, tile);
  if (tiles == 0)
    tiles = config.memory.budgets.device.value / part / pieces_at_once /
            (tile * config.model.width * value_bytes(activations_of(config)));
  const u64 all = config.train.per_device_train_batch_size * div_up(tokens, tile);
  return tiles >= all ? 0 : static_cast<u32>(std::max<u64>(tiles, 1));
}

Result<ModelGraph> graph_of(const Config& config, TargetOutput output = TargetOutput::nothing) {
  const Precision precision = config.train.precision;
  LoraConfig lora = config.lora;
  lora.base = config.model_directory;
  // Kernels on GPUs have no strides for an adapter of gate or up alone.
  if (!config.machine.gpus().empty())
    for (const LayerAdapters& layer : layer_adapters(config.model, lora))
      if (layer.experts.form == AdapterForm::single)
        return Error{ErrorKind::usage,
                     "lora.target_modules: on a GPU, experts get adapters through lora.target_parameters "
                     "(mlp.experts.gate_up_proj, mlp.experts.down_proj); or set machine.executor=cpu"};
  TRY_ASSIGN(std::vector<UpdateRule> rules, rules_of(config.train));
  const u32 together = experts_together(config, rules);
  ObjectiveRule objective = objective_rule(config.objective);
  objective.output = output;
  return build_model(config.model, precision,
                     {.sequences = config.train.per_device_train_batch_size,
                      .tokens = config.train.sequence_length,
                      .packed = packs_documents(config),
                      .holes = config.data.units.shares,
                      .tile_tokens = tile_tokens(config),
                      .piece_tiles = piece_tiles(config)},
                     activations_of(config), lora, together, std::move(rules), objective);
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

}  // namespace

Result<Job> make_job(Config config) {
  TRY_ASSIGN(ModelGraph graph, graph_of(config));
  graph.neftune_alpha = config.train.neftune_noise_alpha;
  TRY(check_groups(config.train, graph));
  return derive(std::move(config), std::move(graph));
}

Result<Job> make_forward_job(Config config, TargetOutput output) {
  TRY_ASSIGN(ModelGraph graph, graph_of(config, output));
  for (Window& window : graph.windows) window.trainable = false;
  return derive(std::move(config), std::move(graph));
}

Job with_steps(Job job, u64 max_steps) {
  job.config.train.max_steps = max_steps;
  return job;
}

bool packs_documents(const Config& config) {
  if (objective(config.objective.type).units()) return true;  // a unit's sequences share a row
  return config.data.packing && config.data.rows_are_shared.value_or(true) && can_pack(config.model.family);
}

u32 experts_per_group(const Config& config) {
  const Result<std::vector<UpdateRule>> rules = rules_of(config.train);
  return experts_together(config, rules ? *rules : update_rules(config.train.optim));
}

u64 piece_tokens(const Config& config) { return u64{piece_tiles(config)} * tile_tokens(config); }

bool norm_counts(const Config& config) {
  return config.train.max_grad_norm > 0 || config.train.precision == Precision::fp16;
}

bool scale_is_late(const Config& config) {
  return config.train.precision == Precision::fp16 && !config.machine.gpus().empty();
}

}  // namespace tidepool
