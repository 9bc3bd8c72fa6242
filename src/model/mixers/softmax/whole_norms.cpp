#include "model/mixers/softmax/whole_norms.h"

#include "model/mixers/softmax/tensors.h"

namespace tidepool::softmax {
namespace {

// Columns of qkv that one of the norms is over.
struct Part {
  Role weight;
  u32 begin, columns;
};
std::array<Part, 2> parts_of(const Layer& l) {
  const u32 queries = l.config().query_width(l.number()), keys = l.config().key_width(l.number());
  return {{{Role::q_norm, 0, queries}, {Role::k_norm, queries, keys}}};
}

void copy(const Layer& l, u32 columns, ConstValues x, u32 x_stride, Values y, u32 y_stride) {
  l.c.kernels.copy_columns(
      {.rows = rows_of(l.c), .columns = columns, .x = x, .x_stride = x_stride, .y = y, .y_stride = y_stride});
}

void norm(const Layer& l, const Part& part, Values x, Values y, float* rstd) {
  l.c.kernels.rms_norm({.rows = rows_of(l.c),
                        .columns = part.columns,
                        .x = x,
                        .weight = l[part.weight],
                        .weight_offset = l.style().norm_offset ? 1.0f : 0.0f,
                        .epsilon = static_cast<float>(l.config().norm_epsilon),
                        .y = y,
                        .rstd = rstd});
}

}  // namespace

bool has_whole_norms(const Layer& l) { return l.config().qk_norm() == QkNormKind::whole; }

u64 whole_norm_partials(const ModelGraph& g) {
  return rms_norm_partials(g.batch.tile_rows(), g.config.query_width());
}

void whole_norms(const Layer& l, const WholeNorms& n) {
  const ModelConfig& c = l.config();
  const u32 stride = c.qkv_width(l.number()), keys = c.key_width(l.number()), values = stride - keys;
  for (const Part& part : parts_of(l)) {
    copy(l, part.columns, n.qkv.at(part.begin), stride, n.spare, part.columns);
    norm(l, part, n.spare, n.spare, nullptr);
    copy(l, part.columns, n.spare, part.columns, n.out.at(part.begin), stride);
  }
  if (n.out.data != n.qkv.data) copy(l, keys, n.qkv.at(values), stride, n.out.at(values), stride);
}

void whole_norm_gradients(const LayerGradients& s, const WholeNormGradients& n) {
  const Layer& l = s.layer;
  const u32 stride = l.config().qkv_width(l.number());
  for (const Part& part : parts_of(l)) {
    copy(l, part.columns, n.qkv.at(part.begin), stride, n.x, part.columns);
    norm(l, part, n.x, n.dx, n.moments.rstd);  // for rstd alone
    copy(l, part.columns, n.dqkv.at(part.begin), stride, n.dx, part.columns);
    l.c.kernels.rms_norm_backward({.rows = rows_of(l.c),
                                   .columns = part.columns,
                                   .x = n.x,
                                   .weight = l[part.weight],
                                   .weight_offset = l.style().norm_offset ? 1.0f : 0.0f,
                                   .rstd = n.moments.rstd,
                                   .dy = n.dx,
                                   .dx = n.dx,
                                   .dweight = s[part.weight],
                                   .accumulate = s.b.accumulate,
                                   .partials = n.moments.partials});
    copy(l, part.columns, n.dx, part.columns, n.dqkv.at(part.begin), stride);
  }
}

}  // namespace tidepool::softmax
