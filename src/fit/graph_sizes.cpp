#include "fit/graph_sizes.h"

#include <algorithm>

#include "kernels/gradient/gradient.h"
#include "model/mlps/experts/expert_windows.h"

namespace tidepool {
namespace {

constexpr u64 part = 4;  // of the device budget

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

u64 bytes_of_expert(const Config& config, const std::vector<UpdateRule>& rules) {
  return streamed_bytes(config.train.precision, !config.lora.on()) *
             expert_elements(config.model, config.train.precision, rules) +
         adapter_bytes_of_expert(config);
}

// Bytes of the activations of a tile of several ops at once: what one reads and writes, with gradients, and
// what goes down and comes up beside it.
u64 bytes_of_tile(const Config& config) {
  constexpr u64 at_once = 6;
  return at_once * tile_tokens(config) * config.model.width * value_bytes(activations_of(config));
}

u32 usual_group(const Config& config, const std::vector<UpdateRule>& rules) {
  const u32 count = config.model.experts.count;
  if (count == 0) return 0;
  if (config.memory.experts_per_group != 0) return std::min(config.memory.experts_per_group, count);
  const u64 expert = bytes_of_expert(config, rules);
  u32 group = count;
  while (group > 1 && group * expert > config.memory.budgets.device.value / part) group = (group + 1) / 2;
  return group;
}

u32 usual_piece(const Config& config) {
  const u64 tile = tile_tokens(config), tokens = config.train.sequence_length;
  if (tile == 0 || tile >= tokens) return 0;
  u64 tiles = div_up(config.memory.piece_tokens, tile);
  if (tiles == 0) tiles = config.memory.budgets.device.value / part / bytes_of_tile(config);
  const u64 all = config.train.per_device_train_batch_size * div_up(tokens, tile);
  return tiles >= all ? 0 : static_cast<u32>(std::max<u64>(tiles, 1));
}

}  // namespace

GraphSizes usual_sizes(const Config& config, const std::vector<UpdateRule>& rules) {
  return {.experts_per_group = usual_group(config, rules), .piece_tiles = usual_piece(config)};
}

std::optional<GraphSizes> smaller_sizes(const Config& config, const ModelGraph& graph) {
  const BatchShape& batch = graph.batch;
  const u32 tiles = !batch.tiled() ? 0 : batch.pieces() == 1 ? batch.tiles() : batch.piece_tiles;
  GraphSizes sizes{.experts_per_group = graph.experts_per_group, .piece_tiles = batch.piece_tiles};
  const bool group_is_open = config.memory.experts_per_group == 0 && graph.experts_per_group > 1,
             piece_is_open = config.memory.piece_tokens == 0 && tiles > 1;
  if (!group_is_open && !piece_is_open) return std::nullopt;
  const u64 group = group_is_open ? graph.experts_per_group * bytes_of_expert(config, graph.rules) : 0,
            piece = piece_is_open ? tiles * bytes_of_tile(config) : 0;
  if (group > piece)
    sizes.experts_per_group = (sizes.experts_per_group + 1) / 2;
  else
    sizes.piece_tiles = (tiles + 1) / 2;
  return sizes;
}

u32 tile_tokens(const Config& config) {
  if (config.train.tile_tokens != 0) return config.train.tile_tokens;
  return default_tile_tokens(!config.machine.gpus().empty());
}

Precision activations_of(const Config& config) {
  return config.machine.gpus().empty() ? Precision::fp32 : config.train.precision;
}

}  // namespace tidepool
