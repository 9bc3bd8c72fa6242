// x + attn(ln_1(x)), then + mlp(ln_2(.)).
#include "model/layer_inside.h"
#include "tidepool/check.h"

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

void attention_half(const BlockContext& c, const WindowParams& w, const AttentionHalf& a) {
  const ModelConfig& config = c.graph.config;
  layer_norm_of(c, w, LayerNormSite::ln_1, {.x = a.x, .y = a.norm});
  c.kernels.matmul({.m = rows_of(c),
                    .n = 3 * config.width,
                    .k = config.width,
                    .x = a.norm,
                    .weight = w[c_attn_weight],
                    .bias = w[c_attn_bias],
                    .y = a.qkv});
  c.kernels.attention({.shape = attention_shape(c.graph),
                       .qkv = a.qkv,
                       .out = a.attention,
                       .lse = a.lse,
                       .dropout = dropout_of(c, DropoutSite::attention, config.attention_dropout)});
  c.kernels.matmul({.m = rows_of(c),
                    .n = config.width,
                    .k = config.width,
                    .x = a.attention,
                    .weight = w[attn_c_proj_weight],
                    .bias = w[attn_c_proj_bias],
                    .epilogue = Epilogue::residual,
                    .y = a.middle,
                    .residual = a.x,
                    .dropout = dropout_of(c, DropoutSite::after_attention, config.residual_dropout)});
}

void layer_forward(const BlockContext& c, const BlockForward& f) {
  const ModelConfig& config = c.graph.config;
  CHECK(f.output.data != f.input.data, c.block);
  const LayerForwardWorkspace workspace(c.graph, f.workspace);
  const LayerInside kept(c.graph, f.kept);
  CHECK(workspace.bytes == block_of(c).forward_workspace && kept.bytes == block_of(c).kept, c.block);
  const bool keep = f.kept != nullptr;
  const WindowParams w = params_of(c, f.windows, 0);
  const AttentionHalf half = {.x = f.input,
                              .norm = workspace.narrow,
                              .qkv = keep ? kept.qkv : workspace.wide,
                              .attention = keep ? kept.attention : workspace.narrow,
                              .lse = kept.lse,
                              .middle = keep ? kept.middle : f.output};
  attention_half(c, w, half);
  layer_norm_of(c, w, LayerNormSite::ln_2, {.x = half.middle, .y = workspace.narrow});
  c.kernels.matmul({.m = rows_of(c),
                    .n = config.inner(),
                    .k = config.width,
                    .x = workspace.narrow,
                    .weight = w[c_fc_weight],
                    .bias = w[c_fc_bias],
                    .epilogue = Epilogue::gelu,
                    .y = workspace.wide,
                    .pre = kept.pre});
  c.kernels.matmul({.m = rows_of(c),
                    .n = config.width,
                    .k = config.inner(),
                    .x = workspace.wide,
                    .weight = w[mlp_c_proj_weight],
                    .bias = w[mlp_c_proj_bias],
                    .epilogue = Epilogue::residual,
                    .y = f.output,
                    .residual = half.middle,
                    .dropout = dropout_of(c, DropoutSite::after_mlp, config.residual_dropout)});
}

}  // namespace tidepool
