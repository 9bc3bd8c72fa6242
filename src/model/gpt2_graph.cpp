// GPT-2 as blocks and windows, with sizes and costs worked out before the run.
#include <fmt/format.h>

#include <cmath>

#include "kernels/attention/attention.h"
#include "model/block_costs.h"
#include "model/block_layouts.h"
#include "model/blocks.h"

namespace tidepool {
namespace {

constexpr u64 tensor_alignment_elements = 64;
constexpr u32 n_embd_max = 1 << 18;  // a row's parameters fit a worker's scratch area twice

// ---- Windows

struct TensorSpec {
  std::string name;
  std::vector<u64> shape;
  Init init = Init::zeros;
  double init_std = 0.0;
};

void append(Window& window, TensorSpec spec) {
  Tensor tensor = {.name = std::move(spec.name), .shape = std::move(spec.shape)};
  tensor.window_offset = round_up(window.elements, tensor_alignment_elements);
  tensor.elements = 1;
  for (u64 extent : tensor.shape) tensor.elements *= extent;
  tensor.weight_decay = tensor.shape.size() > 1;
  tensor.init = spec.init;
  tensor.init_std = spec.init_std;
  window.elements = tensor.window_offset + tensor.elements;
  window.parameters += tensor.elements;
  window.tensors.push_back(std::move(tensor));
}

Window make_window(std::string name, std::vector<TensorSpec> specs) {
  Window window = {.name = std::move(name)};
  for (TensorSpec& spec : specs) append(window, std::move(spec));
  window.elements = round_up(window.elements, cut_alignment_elements);
  return window;
}

Window layer_window(const Gpt2Config& c, u32 layer) {
  const u64 h = c.n_embd, inner = c.inner();
  const double std = c.initializer_range;
  // GPT-2 scales what is added to the residual stream by 1 / sqrt(additions), two per layer.
  const double residual_std = std / std::sqrt(2.0 * c.n_layer);
  const std::string prefix = fmt::format("h.{}.", layer);
  return make_window(fmt::format("h.{}", layer),
                     {{prefix + "ln_1.weight", {h}, Init::ones},
                      {prefix + "ln_1.bias", {h}},
                      {prefix + "attn.c_attn.weight", {h, 3 * h}, Init::normal, std},
                      {prefix + "attn.c_attn.bias", {3 * h}},
                      {prefix + "attn.c_proj.weight", {h, h}, Init::normal, residual_std},
                      {prefix + "attn.c_proj.bias", {h}},
                      {prefix + "ln_2.weight", {h}, Init::ones},
                      {prefix + "ln_2.bias", {h}},
                      {prefix + "mlp.c_fc.weight", {h, inner}, Init::normal, std},
                      {prefix + "mlp.c_fc.bias", {inner}},
                      {prefix + "mlp.c_proj.weight", {inner, h}, Init::normal, residual_std},
                      {prefix + "mlp.c_proj.bias", {h}}});
}

std::vector<Window> make_windows(const Gpt2Config& c) {
  const u64 h = c.n_embd;
  const double std = c.initializer_range;
  std::vector<Window> windows;
  windows.push_back(make_window("wte", {{"wte.weight", {c.vocab_size, h}, Init::normal, std}}));
  windows.push_back(make_window("wpe", {{"wpe.weight", {c.n_positions, h}, Init::normal, std}}));
  for (u32 layer = 0; layer < c.n_layer; ++layer) windows.push_back(layer_window(c, layer));
  windows.push_back(make_window("ln_f", {{"ln_f.weight", {h}, Init::ones}, {"ln_f.bias", {h}}}));
  return windows;
}

// ---- Blocks

Block embedding_block(const ModelGraph& g) {
  Block block = {.kind = BlockKind::embedding, .name = "embedding", .windows = {0, 1}};
  block.backward_workspace = EmbeddingBackwardWorkspace(g, nullptr).bytes;
  set_costs(block, g);
  return block;
}

Block layer_block(const ModelGraph& g, u32 layer) {
  Block block = {.kind = BlockKind::gpt2_layer,
                 .name = fmt::format("h.{}", layer),
                 .layer = layer,
                 .windows = {2 + layer}};
  block.kept = LayerInside(g, nullptr).bytes;
  block.forward_workspace = LayerForwardWorkspace(g, nullptr).bytes;
  block.backward_workspace = LayerBackwardWorkspace(g, nullptr, Inside::recomputed).bytes;
  set_costs(block, g);
  return block;
}

Block head_block(const ModelGraph& g) {
  Block block = {.kind = BlockKind::gpt2_head, .name = "head", .windows = {g.config.n_layer + 2, 0}};
  block.forward_workspace = HeadWorkspace(g, nullptr, Direction::forward).bytes;
  block.backward_workspace = HeadWorkspace(g, nullptr, Direction::backward).bytes;
  set_costs(block, g);
  return block;
}

// ---- Validation

std::string wrong(const Gpt2Config& c, BatchShape batch) {
  if (c.vocab_size == 0) return "model.vocab_size is 0; give the number of tokens, 256 for bytes";
  if (c.n_embd == 0 || c.n_embd > n_embd_max)
    return fmt::format("model.n_embd is {}; it must be in 1..{}", c.n_embd, n_embd_max);
  if (c.n_head == 0 || c.n_embd % c.n_head != 0)
    return fmt::format("model.n_embd ({}) is not divisible by model.n_head ({}); change one of them", c.n_embd,
                       c.n_head);
  if (c.head_size() > attention_head_size_max)
    return fmt::format("model.n_embd / model.n_head is {}, more than the {} supported; raise model.n_head",
                       c.head_size(), attention_head_size_max);
  if (c.n_layer == 0) return "model.n_layer is 0; a model needs at least one layer";
  if (!(c.layer_norm_epsilon > 0))
    return fmt::format("model.layer_norm_epsilon is {}; it must be positive", c.layer_norm_epsilon);
  if (!(c.initializer_range >= 0))
    return fmt::format("model.initializer_range is {}; it must not be negative", c.initializer_range);
  for (auto [key, p] : {std::pair{"embd_pdrop", c.embd_pdrop}, std::pair{"attn_pdrop", c.attn_pdrop},
                        std::pair{"resid_pdrop", c.resid_pdrop}}) {
    if (!(p >= 0 && p < 1)) return fmt::format("model.{} is {}; it must be in [0, 1)", key, p);
  }
  if (batch.sequences == 0)
    return "train.per_device_train_batch_size is 0; it must be at least 1";
  if (batch.tokens == 0) return "train.sequence_length is 0; it must be at least 1";
  if (batch.tokens > c.n_positions)
    return fmt::format("train.sequence_length ({}) is longer than model.n_positions ({}); lower the first or raise "
                       "the second", batch.tokens, c.n_positions);
  constexpr u64 elements_max = u64{1} << 31;  // offsets inside a matrix stay well inside the library's
  if (batch.rows() * std::max<u64>({3 * c.n_embd, c.inner(), std::min(c.vocab_size, vocabulary_slice)}) > elements_max)
    return fmt::format("{} sequences of {} tokens are too much for one micro-batch; lower "
                       "train.per_device_train_batch_size and raise train.gradient_accumulation_steps",
                       batch.sequences, batch.tokens);
  return {};
}

}  // namespace

Result<ModelGraph> build_gpt2(const Gpt2Config& config, Precision precision, BatchShape batch,
                              Precision activations) {
  if (std::string message = wrong(config, batch); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  ModelGraph g = {.config = config, .precision = precision, .activations = activations, .batch = batch};
  g.windows = make_windows(config);
  g.blocks.push_back(embedding_block(g));
  for (u32 layer = 0; layer < config.n_layer; ++layer) g.blocks.push_back(layer_block(g, layer));
  g.blocks.push_back(head_block(g));
  g.boundary = {round_up(values_bytes(batch.rows() * config.n_embd, activations), frame_alignment)};
  g.batch_bytes = {round_up(2 * batch.rows() * sizeof(i32), frame_alignment)};
  for (const Window& window : g.windows) g.parameters += window.parameters;
  g.flops_per_token = 6 * g.parameters + u64{12} * config.n_layer * config.n_embd * batch.tokens;
  return g;
}

}  // namespace tidepool
