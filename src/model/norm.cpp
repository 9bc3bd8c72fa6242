#include "model/norm.h"

#include <algorithm>

#include "model/block_calls.h"

namespace tidepool {
namespace {

bool has_layer_norms(const ModelGraph& g) { return style(g.config.family).norm == NormKind::layer_norm; }
float weight_offset(const ModelGraph& g) { return style(g.config.family).norm_offset ? 1 : 0; }

}  // namespace

NormScratch norm_scratch(const ModelGraph& g, WorkspaceCutter& layout, u64 partials_min) {
  const u64 rows = g.batch.tile_rows(), h = g.config.width;
  NormScratch out;
  if (has_layer_norms(g)) out.mean = layout.take<float>(rows);
  out.rstd = layout.take<float>(rows);
  const u64 partials = has_layer_norms(g) ? layer_norm_partials(rows, h) : rms_norm_partials(rows, h);
  out.partials = layout.take<float>(std::max(partials, partials_min));
  return out;
}

void norm_forward(const BlockContext& c, const NormWeights& w, const NormCall& n) {
  const u32 columns = c.graph.config.width;
  const float epsilon = static_cast<float>(c.graph.config.norm_epsilon);
  if (has_layer_norms(c.graph))
    c.kernels.layer_norm({.rows = n.rows,
                          .columns = columns,
                          .x = n.x,
                          .weight = w.weight,
                          .bias = w.bias,
                          .epsilon = epsilon,
                          .y = n.y,
                          .mean = n.mean,
                          .rstd = n.rstd});
  else
    c.kernels.rms_norm({.rows = n.rows,
                        .columns = columns,
                        .x = n.x,
                        .weight = w.weight,
                        .weight_offset = weight_offset(c.graph),
                        .epsilon = epsilon,
                        .residual = n.residual,
                        .y = n.y,
                        .rstd = n.rstd});
}

void norm_backward(const BlockContext& c, const NormWeights& w, const NormGradients& g,
                   const NormBackwardCall& n) {
  const u32 rows = rows_of(c), columns = c.graph.config.width;
  if (has_layer_norms(c.graph))
    c.kernels.layer_norm_backward({.rows = rows,
                                   .columns = columns,
                                   .x = n.x,
                                   .weight = w.weight,
                                   .mean = n.moments.mean,
                                   .rstd = n.moments.rstd,
                                   .dy = n.dy,
                                   .dx = n.dx,
                                   .add_to_dx = n.add_to_dx,
                                   .dweight = g.weight,
                                   .dbias = g.bias,
                                   .accumulate = n.accumulate,
                                   .partials = n.moments.partials});
  else
    c.kernels.rms_norm_backward({.rows = rows,
                                 .columns = columns,
                                 .x = n.x,
                                 .weight = w.weight,
                                 .weight_offset = weight_offset(c.graph),
                                 .rstd = n.moments.rstd,
                                 .dy = n.dy,
                                 .dx = n.dx,
                                 .add_to_dx = n.add_to_dx,
                                 .dweight = g.weight,
                                 .accumulate = n.accumulate,
                                 .partials = n.moments.partials});
}

}  // namespace tidepool
