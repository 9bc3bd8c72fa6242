// Tensors and layer sizes of GPT-2.
#include <fmt/format.h>

#include <cmath>

#include "model/decoder_windows.h"
#include "model/gpt2/layer.h"
#include "model/layer_code.h"
#include "model/layer_frames.h"
#include "model/window_builder.h"

namespace tidepool {
namespace gpt2 {
namespace {

Window layer_window(const ModelConfig& c, u32 layer) {
  const u64 h = c.width, inner = c.inner();
  const double std = c.initializer_range;
  // GPT-2 scales the weights of products that are added to the residual stream by 1 / sqrt(additions). Each
  // layer has two additions.
  const double residual_std = std / std::sqrt(2.0 * c.layers);
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

std::vector<Window> make_windows(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  const u64 h = c.width;
  const double std = c.initializer_range;
  std::vector<Window> windows;
  windows.push_back(make_window("wte", {{"wte.weight", {c.vocab_size, h}, Init::normal, std}}));
  windows.push_back(make_window("wpe", {{"wpe.weight", {c.positions, h}, Init::normal, std}}));
  for (u32 layer = 0; layer < c.layers; ++layer) windows.push_back(layer_window(c, layer));
  windows.push_back(make_window("ln_f", {{"ln_f.weight", {h}, Init::ones}, {"ln_f.bias", {h}}}));
  if (c.score.on()) windows.push_back(score_window(c));
  return windows;
}

}  // namespace

LinearModules linear_modules(const ModelConfig& c, BlockKind) {
  LinearModules out;
  out.add({"attn.c_attn", c.width, 3 * c.width});
  out.add({"attn.c_proj", c.width, c.width});
  out.add({"mlp.c_fc", c.width, c.inner()});
  out.add({"mlp.c_proj", c.inner(), c.width});
  return out;
}

}  // namespace gpt2

const LayerCode gpt2::code = {
    .styles = {&gpt2_layers},
    .windows = gpt2::make_windows,
    .embedding_windows = 2,
    .modules = gpt2::linear_modules,
    .measure = measure_layer<gpt2::LayerInside, gpt2::ForwardWorkspace, gpt2::BackwardWorkspace>,
    .forward = gpt2::layer_forward,
    .backward = gpt2::layer_backward};

}  // namespace tidepool
