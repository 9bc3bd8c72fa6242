// build_model makes a model's blocks and windows, and computes their sizes and costs before the run.
#include <fmt/format.h>

#include <algorithm>

#include "model/adapter_windows.h"
#include "model/attention.h"
#include "model/block_layouts.h"
#include "model/blocks.h"
#include "model/decoder_windows.h"
#include "model/layer.h"
#include "model/layer_parts.h"
#include "model/mlps/experts/expert_layouts.h"
#include "model/mlps/experts/expert_windows.h"
#include "model/mlps/experts/experts_block.h"
#include "model/mlps/layer_inputs/layer_inputs.h"
#include "model/packed_windows.h"
#include "model/recorded_costs.h"
#include "optimizers/optimizer.h"
#include "tidepool/connect_blocks.h"

namespace tidepool {
namespace {

static_assert(model_head_size_max == attention_head_size_max && model_head_size_max <= 2 * rotary_pairs_max);
static_assert(model_state_head_size_max == delta_head_size_max);
static_assert(model_taps_max == delta_taps_max);

Block embedding_block(const ModelGraph& g) {
  Block block = {.kind = BlockKind::embedding, .name = "embedding"};
  const u32 windows = g.config.layer_inputs.on() ? 1 : windows_before_layers(g.config);
  for (u32 w = 0; w < windows; ++w) block.windows.push_back(w);
  block.backward_workspace = EmbeddingBackwardWorkspace(g, nullptr).bytes;
  return block;
}

// `norm`: window of the final norm.
Block head_block(const ModelGraph& g, u32 norm) {
  Block block = {.kind = BlockKind::head,
                 .name = "head",
                 .windows = {norm, g.config.head_is_embedding() ? 0 : norm + 1}};
  block.forward_workspace = HeadWorkspace(g, nullptr, Direction::forward).bytes;
  block.backward_workspace = HeadWorkspace(g, nullptr, Direction::backward).bytes;
  return block;
}

void add_block(ModelGraph& g, Block block) {
  g.blocks.push_back(std::move(block));
  record_costs(g, static_cast<u32>(g.blocks.size()) - 1);
}

// Adds the blocks of all layers, in the order of their windows. Blocks that cost the same are measured once:
// except for names, layers differ in their mixer, their MLP and the window of their attention, and groups in
// their size.
class LayerBlocks {
 public:
  LayerBlocks(ModelGraph& g, const AdapterWindows& adapters)
      : g_(g), adapters_(adapters), window_(windows_before_layers(g.config)) {}

  void add() {
    for (u32 layer = 0; layer < g_.config.layers; ++layer) {
      const BlockKind kind = layer_kind(g_.config, layer);
      add_block(named(kind, layer));
      for (u32 group = 0; kind == BlockKind::attention && group < expert_groups(g_); ++group)
        add_block(named(BlockKind::experts, layer, group));
      if (g_.config.has_branches(layer)) add_block(named(BlockKind::layer_end, layer));
    }
  }

 private:
  Block named(BlockKind kind, u32 layer, u32 group = none) {
    Block block = {.kind = kind, .name = g_.windows[window_].name, .layer = layer, .group = group};
    if (kind == BlockKind::attention) block.name += ".attention";
    block.windows = {window_++};
    if (const u32 adapters = adapter_window(block); adapters != none) block.windows.push_back(adapters);
    return block;
  }

  u32 adapter_window(const Block& block) const {
    if (!g_.lora.on()) return none;
    if (block.kind == BlockKind::layer_end) return adapters_.ends[block.layer];
    return block.group == none ? adapters_.layers[block.layer] : adapters_.groups[block.layer][block.group];
  }

  bool alike(const Block& a, const Block& b) const {
    if (a.kind != b.kind || !packed_alike(g_.windows[a.windows[0]], g_.windows[b.windows[0]])) return false;
    if (!g_.adapters.empty() && g_.adapters[a.layer] != g_.adapters[b.layer]) return false;
    if (a.kind == BlockKind::experts)
      return experts_of_group(g_, a.group).count == experts_of_group(g_, b.group).count;
    const ModelConfig& c = g_.config;
    return c.mixer_kind(a.layer) == c.mixer_kind(b.layer) && c.mlp_kind(a.layer) == c.mlp_kind(b.layer) &&
           attention_shape(g_, a.layer) == attention_shape(g_, b.layer) &&
           c.keys_are_values(a.layer) == c.keys_are_values(b.layer) &&
           c.reads_keys(a.layer) == c.reads_keys(b.layer) && c.gives_keys(a.layer) == c.gives_keys(b.layer);
  }

  void add_block(Block block) {
    for (const Block& before : g_.blocks) {
      if (before.layer == none || !alike(before, block)) continue;
      Block copy = before;
      copy.name = block.name, copy.layer = block.layer, copy.group = block.group;
      copy.windows = block.windows;
      return g_.blocks.push_back(std::move(copy));
    }
    block.kind == BlockKind::experts ? measure_experts(block, g_) : measure_layer(block, g_);
    block.unpacked = unpacked_bytes(g_, block);
    block.forward_workspace += block.unpacked, block.backward_workspace += block.unpacked;
    tidepool::add_block(g_, std::move(block));
  }

  ModelGraph& g_;
  const AdapterWindows& adapters_;
  u32 window_;
};

u64 widest(const ModelConfig& c) {
  const u32 mlp = mlp_row(style(c.family).mlp).widths(c, c.layers - 1).values;  // no layer has a wider one
  u32 most = std::max(mlp, std::min(c.head_rows(), vocabulary_slice));
  most = std::max(most, c.layer_inputs_width());
  for (u32 layer = 0; layer < c.layers; ++layer) most = std::max(most, c.qkv_width(layer));
  return most;
}

// RETURNS: tokens that a layer's convolution sees beside the own; 0: no layer has one.
u32 taps_before(const ModelConfig& c) {
  const u32 taps = std::max(c.delta.taps, c.mamba.taps);
  for (u32 layer = 0; layer < c.layers; ++layer)
    if (const MixerKind kind = c.mixer_kind(layer);
        kind == MixerKind::gated_delta || kind == MixerKind::mamba)
      return taps - 1;
  return 0;
}

// RETURNS: the smallest tile that cuts a micro-batch into no more tiles than are possible.
u64 least_tile_tokens(const BatchShape& batch) {
  return div_up(u64{batch.tokens}, std::max<u64>(row_tiles_max / batch.sequences, 1));
}

std::string wrong(const ModelConfig& c, BatchShape batch, const ObjectiveRule& objective) {
  if (const std::optional<ModelFault> fault = check_model(c))
    return fmt::format("model.{}: {}", fault->key, fault->reason);
  if (batch.sequences == 0) return "train.per_device_train_batch_size is 0; it must be at least 1";
  if (batch.tokens == 0) return "train.sequence_length is 0; it must be at least 1";
  if (batch.tokens > c.longest_sequence())
    return fmt::format("train.sequence_length {} is longer than {}; lower the first or raise the second",
                       batch.tokens, longest_sequence_text(c));
  if (batch.packed && !can_pack(c.family))
    return "documents cannot be packed for GPT-2 models, whose positions are learned for whole sequences; do "
           "not pack them";
  if (objective.units()) batch.tile_tokens = 0;
  if (batch.tiled() && batch.tiles() > row_tiles_max)
    return fmt::format("train.tile_tokens={} cuts a micro-batch into {} tiles, of {} at most: set {} or more",
                       batch.tile_tokens, batch.tiles(), row_tiles_max, least_tile_tokens(batch));
  if (batch.tiled() && batch.tile_tokens < taps_before(c))
    return fmt::format(
        "train.tile_tokens={}: a convolution of this model reads {} tokens before: set that or more",
        batch.tile_tokens, taps_before(c));
  constexpr u64 elements_max = u64{1} << 31;  // matrix libraries can address more
  if (batch.tile_rows() * widest(c) > elements_max || batch.rows() > elements_max)
    return fmt::format(
        "{} sequences of {} tokens are too much for one micro-batch; lower "
        "train.per_device_train_batch_size and raise train.gradient_accumulation_steps",
        batch.sequences, batch.tokens);
  return {};
}

}  // namespace

Result<ModelGraph> build_model(const ModelConfig& config, Precision precision, BatchShape batch,
                               Precision activations, const LoraConfig& lora, u32 experts_per_group,
                               std::vector<UpdateRule> rules, const ObjectiveRule& objective) {
  if (std::string message = wrong(config, batch, objective); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  ModelGraph g = {
      .config = config, .lora = lora, .precision = precision, .activations = activations, .batch = batch};
  g.objective = objective;
  if (objective.units() || !g.batch.tiled()) g.batch.tile_tokens = g.batch.piece_tiles = 0;
  g.batch.second_table = config.layer_inputs.on();
  g.batch.units = objective.units();
  g.batch.values = objective.has_values();
  g.batch.references = objective.reference;
  g.batch.old_logps = objective.unit == LossUnit::rollout;
  if (objective.reads_distributions()) g.batch.distribution_numbers = objective.divergence.numbers();
  g.state_slots = state_slots(precision, rules);
  g.rules = std::move(rules);
  if (config.experts.count != 0)
    g.experts_per_group =
        experts_per_group == 0 ? config.experts.count : std::min(experts_per_group, config.experts.count);
  if (std::string message = lora.on() ? "" : wrong_with_expert_rules(g); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  g.windows = model_windows(g);
  g.adapters = layer_adapters(config, lora);
  AdapterWindows adapters;
  if (lora.on()) {
    TRY_ASSIGN(adapters, add_adapters(g));
  }
  TRY(pack_windows(g));
  for (Window& window : g.windows) window.elements = round_up(window.elements, g.state_slots.cut_alignment());
  record_matrix_costs(g);
  add_block(g, embedding_block(g));
  g.boundary = {round_up(values_bytes(g.batch.piece_rows() * config.width, activations), frame_alignment)};
  if (config.layer_inputs.on()) {
    add_block(g, layer_inputs::embedding_block(g, 1));
    add_block(g, layer_inputs::product_block(g, 2));
  }
  LayerBlocks(g, adapters).add();
  add_block(g, head_block(g, g.blocks.back().windows[0] + 1));
  connect_blocks(g, stream_sizes(g));
  g.batch_bytes = {round_up(g.batch.arrays().bytes(batch.rows()), frame_alignment)};
  // An embedding is looked up, not multiplied; a tied one is multiplied as the head.
  for (u32 layer = 0; layer < config.layers; ++layer) {
    const std::optional<AttentionShape> shape = attention_shape(g, layer);
    if (!shape) continue;
    const u64 columns = shape->query_columns() + shape->out_columns();
    g.flops_per_token += 6 * columns * (shape->window != 0 ? shape->window : batch.tokens);
  }
  for (const Block& block : g.blocks)
    for (const u32 w : block.windows) {
      const Window& window = g.windows[w];
      // A tied matrix counts as the embedding's parameters, and as the head's work.
      const bool tied = config.head_is_embedding() && block.kind == BlockKind::head && w == 0;
      const bool looked_up = block.kind == BlockKind::embedding && (w == 0 || config.layer_inputs.on());
      const u64 active = block.kind == BlockKind::experts
                             ? window.parameters / config.experts.count * config.experts.chosen
                             : window.parameters;
      if (!tied) g.parameters += window.parameters, g.active_parameters += active;
      if (!looked_up) g.flops_per_token += (window.trainable ? 6 : 4) * active;
    }
  return g;
}

}  // namespace tidepool
