// build_model makes a model's blocks and windows, and computes their sizes and costs before the run.
#include <fmt/format.h>

#include <algorithm>

#include "model/adapter_windows.h"
#include "model/block_layouts.h"
#include "model/blocks.h"
#include "model/layer_code.h"
#include "model/recorded_costs.h"
#include "tidepool/connect_blocks.h"

namespace tidepool {
namespace {

static_assert(model_head_size_max == attention_head_size_max);

Block embedding_block(const ModelGraph& g, const LayerCode& code) {
  Block block = {.kind = BlockKind::embedding, .name = "embedding"};
  for (u32 w = 0; w < code.embedding_windows; ++w) block.windows.push_back(w);
  block.backward_workspace = EmbeddingBackwardWorkspace(g, nullptr).bytes;
  return block;
}

// Fills in the fields that differ between layers: name, number and windows.
void name_layer(Block& block, const ModelGraph& g, const LayerCode& code, u32 layer) {
  const u32 window = code.embedding_windows + layer;
  block.name = g.windows[window].name;
  block.layer = layer;
  block.windows = {window};
  if (g.lora.on()) block.windows.push_back(static_cast<u32>(g.windows.size()) - g.config.layers + layer);
}

Block head_block(const ModelGraph& g, const LayerCode& code) {
  const u32 norm = code.embedding_windows + g.config.layers;
  Block block = {.kind = BlockKind::head, .name = "head", .windows = {norm, g.config.tied ? 0 : norm + 1}};
  block.forward_workspace = HeadWorkspace(g, nullptr, Direction::forward).bytes;
  block.backward_workspace = HeadWorkspace(g, nullptr, Direction::backward).bytes;
  return block;
}

void add_block(ModelGraph& g, Block block) {
  g.blocks.push_back(std::move(block));
  record_costs(g, static_cast<u32>(g.blocks.size()) - 1);
}

// RETURNS: the first layer that costs what this layer does. Except for names, layers differ only in the
// window of their attention.
u32 alike(const ModelGraph& g, u32 layer) {
  u32 first = 0;
  while (attention_shape(g, first) != attention_shape(g, layer)) ++first;
  return first;
}

// Measures one layer of each kind.
void add_layers(ModelGraph& g, const LayerCode& code) {
  const u32 before = static_cast<u32>(g.blocks.size());
  for (u32 layer = 0; layer < g.config.layers; ++layer) {
    const u32 first = alike(g, layer);
    Block block = first < layer ? g.blocks[before + first] : Block{.kind = BlockKind::layer};
    name_layer(block, g, code, layer);
    if (first < layer) {
      g.blocks.push_back(std::move(block));
    } else {
      code.measure(block, g);
      add_block(g, std::move(block));
    }
  }
}

u64 widest(const ModelConfig& c) {
  const u64 mlp = u64{style(c.family).mlp_inputs()} * c.inner();
  return std::max<u64>({c.qkv_width(), mlp, std::min(c.vocab_size, vocabulary_slice)});
}

std::string wrong(const ModelConfig& c, BatchShape batch) {
  if (const std::optional<ModelFault> fault = check_model(c))
    return fmt::format("model.{}: {}", fault->key, fault->reason);
  if (traits(c.family).described_only)
    return fmt::format(
        "model.model_type: the config and files of {} models are known, but their layers are not computed "
        "yet; "
        "choose a model of another family",
        name(c.family));
  if (batch.sequences == 0) return "train.per_device_train_batch_size is 0; it must be at least 1";
  if (batch.tokens == 0) return "train.sequence_length is 0; it must be at least 1";
  if (batch.tokens > c.positions)
    return fmt::format(
        "train.sequence_length ({}) is longer than model.{} ({}); lower the first or raise the second",
        batch.tokens, key_names(c.family).positions, c.positions);
  if (batch.packed && !can_pack(c.family))
    return "documents cannot be packed for GPT-2 models, whose positions are learned for whole sequences; do "
           "not pack them";
  constexpr u64 elements_max = u64{1} << 31;  // matrix libraries can address more
  if (batch.rows() * widest(c) > elements_max)
    return fmt::format(
        "{} sequences of {} tokens are too much for one micro-batch; lower "
        "train.per_device_train_batch_size and raise train.gradient_accumulation_steps",
        batch.sequences, batch.tokens);
  return {};
}

}  // namespace

Result<ModelGraph> build_model(const ModelConfig& config, Precision precision, BatchShape batch,
                               Precision activations, const LoraConfig& lora) {
  if (std::string message = wrong(config, batch); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  const LayerCode& code = layer_code(config.family);
  ModelGraph g = {
      .config = config, .lora = lora, .precision = precision, .activations = activations, .batch = batch};
  g.windows = code.windows(config);
  if (lora.on()) TRY(add_adapters(g, code));
  add_block(g, embedding_block(g, code));
  add_layers(g, code);
  add_block(g, head_block(g, code));
  g.boundary = {round_up(values_bytes(batch.rows() * config.width, activations), frame_alignment)};
  connect_blocks(g, {.residual = g.boundary});
  g.batch_bytes = {round_up(batch_arrays(batch) * batch.rows() * sizeof(i32), frame_alignment)};
  // An embedding is looked up, not multiplied; a tied one is multiplied as the head.
  for (u32 layer = 0; layer < config.layers; ++layer) {
    const u32 window = attention_shape(g, layer).window;
    g.flops_per_token += u64{12} * config.query_width() * (window != 0 ? window : batch.tokens);
  }
  for (const Window& window : g.windows) {
    g.parameters += window.parameters;
    const bool looked_up = &window == &g.windows[0] && !config.tied;
    if (!looked_up) g.flops_per_token += (window.trainable ? 6 : 4) * window.parameters;
  }
  return g;
}

}  // namespace tidepool
