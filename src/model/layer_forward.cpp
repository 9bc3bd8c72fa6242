// x + attn(ln_1(x)), then + mlp(ln_2(.)).
#include "base/check.h"
#include "model/layer_inside.h"

namespace tidepool {

using enum LayerTensor;

void layer_norm_of(const BlockContext& c, const WindowParams& w, LayerNormSite site, const NormCall& call) {
  const bool first = site == LayerNormSite::ln_1;
  c.kernels.layer_norm({.rows = rows_of(c),
                        .columns = c.graph.config.width,
                        .x = call.x,
                        .weight = w[first ? ln_1_weight : ln_2_weight],
                        .bias = w[first ? ln_1_bias : ln_2_bias],
                        .epsilon = static_cast<float>(c.graph.config.norm_epsilon),
                        .y = call.y,
                        .mean = call.mean,
                        .rstd = call.rstd});
}

namespace {

// y = residual + dropout(x weight + bias), with the module's adapter: its share takes the same mask, so it
// may come after.
struct ResidualProduct {
  LayerTensor weight, bias;
  JoinedModules module;
  DropoutSite site;
  u32 k;
};
void residual_product(const BlockContext& c, const WindowParams& w, const Adapters& adapters,
                      const ResidualProduct& p, ConstValues x, Values y, ConstValues residual) {
  const ModelConfig& config = c.graph.config;
  Matmul product = {
      .m = rows_of(c), .n = config.width, .k = p.k, .x = x, .weight = w[p.weight], .bias = w[p.bias]};
  const auto run = [&](Matmul& part, ConstValues added_to) {
    part.epilogue = Epilogue::residual;
    part.y = y;
    part.residual = added_to;
    part.dropout = dropout_of(c, p.site, config.residual_dropout);
    c.kernels.matmul(part);
  };
  run(product, residual);
  if (!adapters.has(p.module.first)) return;
  Matmul up = adapters.up(p.module.first, x);
  run(up, y);
}

}  // namespace

void first_of_mlp(const BlockContext& c, const WindowParams& w, const Adapters& adapters,
                  const FirstOfMlp& f) {
  const ModelConfig& config = c.graph.config;
  const auto finish = [&](Matmul& product) {
    product.epilogue = f.y ? Epilogue::gelu : Epilogue::none;
    product.y = f.y ? f.y : f.pre;
    product.pre = f.y ? f.pre : Values();
    c.kernels.matmul(product);
  };
  Matmul product = {.m = rows_of(c),
                    .n = config.inner(),
                    .k = config.width,
                    .x = f.norm,
                    .weight = w[c_fc_weight],
                    .bias = w[c_fc_bias]};
  if (!adapters.has(gpt2_modules::c_fc.first)) return finish(product);
  product.y = f.pre ? f.pre : f.y;
  c.kernels.matmul(product);
  Matmul up = adapters.up(gpt2_modules::c_fc.first, f.norm);
  up.addend = product.y;
  finish(up);
}

void attention_half(const BlockContext& c, const WindowParams& w, const Adapters& adapters,
                    const AttentionHalf& a) {
  const ModelConfig& config = c.graph.config;
  layer_norm_of(c, w, LayerNormSite::ln_1, {.x = a.x, .y = a.norm});
  c.kernels.matmul({.m = rows_of(c),
                    .n = 3 * config.width,
                    .k = config.width,
                    .x = a.norm,
                    .weight = w[c_attn_weight],
                    .bias = w[c_attn_bias],
                    .y = a.qkv});
  adapters.add_to(gpt2_modules::c_attn, a.norm, a.qkv);
  c.kernels.attention({.shape = attention_shape(c.graph),
                       .qkv = a.qkv,
                       .out = a.attention,
                       .lse = a.lse,
                       .dropout = dropout_of(c, DropoutSite::attention, config.attention_dropout)});
  residual_product(c, w, adapters,
                   {attn_c_proj_weight, attn_c_proj_bias, gpt2_modules::attn_c_proj,
                    DropoutSite::after_attention, config.width},
                   a.attention, a.middle, a.x);
}

void layer_forward(const BlockContext& c, const BlockForward& f) {
  const ModelConfig& config = c.graph.config;
  CHECK(f.output.data != f.input.data, c.block);
  const LayerForwardWorkspace workspace(c.graph, f.workspace);
  const LayerInside kept(c.graph, f.kept);
  CHECK(workspace.bytes == block_of(c).forward_workspace && kept.bytes == block_of(c).kept, c.block);
  const bool keep = f.kept != nullptr;
  const WindowParams w = params_of(c, f.windows, 0);
  const Adapters adapters(c, gpt2_linear_modules(config), f.windows, workspace.adapters);
  const AttentionHalf half = {.x = f.input,
                              .norm = workspace.narrow,
                              .qkv = keep ? kept.qkv : workspace.wide,
                              .attention = keep ? kept.attention : workspace.narrow,
                              .lse = kept.lse,
                              .middle = keep ? kept.middle : f.output};
  attention_half(c, w, adapters, half);
  layer_norm_of(c, w, LayerNormSite::ln_2, {.x = half.middle, .y = workspace.narrow});
  first_of_mlp(c, w, adapters, {.norm = workspace.narrow, .pre = kept.pre, .y = workspace.wide});
  residual_product(
      c, w, adapters,
      {mlp_c_proj_weight, mlp_c_proj_bias, gpt2_modules::mlp_c_proj, DropoutSite::after_mlp, config.inner()},
      workspace.wide, f.output, half.middle);
}

}  // namespace tidepool
