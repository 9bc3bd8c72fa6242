#include "model/block_layouts.h"

#include <algorithm>

namespace tidepool {

EmbeddingBackwardWorkspace::EmbeddingBackwardWorkspace(const ModelGraph& g, std::byte* base) {
  WorkspaceCutter layout(base);
  order = layout.take<u64>(g.batch.tile_rows());
  bytes = layout.bytes();
}

bool smooths_targets(const ObjectiveRule& rule) {
  return rule.unit == LossUnit::target && !rule.divergence.on() && rule.label_smoothing > 0;
}

HeadWorkspace::HeadWorkspace(const ModelGraph& g, std::byte* base, Direction direction) {
  const u64 rows = g.batch.tile_rows(), h = g.config.width;
  WorkspaceCutter layout(base);
  norm = layout.take_values(g.activations, rows * h);
  logits = layout.take_values(
      g.activations, rows * logits_stride(g.activations, std::min(g.config.head_rows(), vocabulary_slice)));
  losses = layout.take<RowLoss>(rows);
  const bool backward = direction == Direction::backward;
  if (g.objective.units()) {
    of_sequences = layout.take<SequenceSums>(rows);
    of_units = layout.take<Sums>(rows);
  }
  const DivergenceRule& divergence = g.objective.divergence;
  if (g.objective.reads_distributions()) {
    of_teacher = layout.take<float>(rows * divergence.top_k);
    of_rows = layout.take<double>(rows);
  }
  if (g.objective.output == TargetOutput::distributions) top = layout.take<TopToken>(rows * divergence.top_k);
  if (g.objective.sums_logits() || (backward && smooths_targets(g.objective)))
    logit_sums = layout.take<LogitSums>(rows);
  if (backward && (g.objective.units() || divergence.on())) factors = layout.take<RowFactors>(rows);
  dnorm = layout.take_values(g.activations, backward ? rows * h : 0);
  if (backward) moments = norm_scratch(g, layout);
  bytes = layout.bytes();
}

}  // namespace tidepool
