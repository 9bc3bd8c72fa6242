#include "executor/host/update_op.h"

#include <algorithm>

#include "executor/host/operand_cursor.h"

namespace tidepool {
namespace {

// Cuts a window's tensors into runs of equal decay. Padding decays: zero stays zero.
std::vector<DecaySegment> runs_of(const Window& window, const Chunk& chunk) {
  std::vector<DecaySegment> runs;
  const u64 begin = chunk.element_begin, end = begin + chunk.elements;
  const auto add = [&](u64 from, u64 to, bool decay) {
    from = std::max(from, begin) - begin;
    to = std::min(to, end);
    if (to <= begin + from) return;
    to -= begin;
    if (!runs.empty() && runs.back().decay == decay) {
      runs.back().end = to;
    } else {
      runs.push_back({from, to, decay});
    }
  };
  for (u32 t = 0; t < window.tensors.size(); ++t) {
    const bool last = t + 1 == window.tensors.size();
    add(window.tensors[t].window_offset, last ? window.elements : window.tensors[t + 1].window_offset,
        window.tensors[t].weight_decay);
  }
  CHECK(!runs.empty() && runs.front().begin == 0 && runs.back().end == chunk.elements, chunk.window,
        chunk.cut);
  return runs;
}

}  // namespace

DecayIndex::DecayIndex(const Plan& plan, const ModelGraph& graph) : runs_(graph.windows.size()) {
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.kind != Kind::param) continue;
    auto& cuts = runs_[chunk.window];
    if (cuts.size() <= chunk.cut) cuts.resize(chunk.cut + 1);
    cuts[chunk.cut] = runs_of(graph.windows[chunk.window], chunk);
  }
}

UpdateOp::UpdateOp(const UpdateOpParts& parts, const DecayIndex& decay) : parts_(parts), decay_(decay) {
  for (std::vector<u64>& hashes : hashes_) hashes.resize(parts.ledger.blocks_max());
}

void UpdateOp::run(const Issue& issue, const AdamWScalars& scalars) {
  const Op& op = issue.get();
  const bool split = parts_.plan.precision == Precision::bf16;
  OperandCursor operands(parts_.plan, parts_.memory, issue);
  AdamWChunk c;
  c.grad = operands.take(split ? Kind::grad : Kind::grad_accum).data();
  c.segments = decay_.of(op.window, op.cut);

  std::array<ChunkId, 4> hashed{};
  u32 kinds = 0;
  // Chunks that rest on disk are written next: their checksums are made while tiles are in cache.
  const auto state = [&](Kind kind, std::span<u64>& hashes, u64& seed) {
    const Operand& o = operands.next(kind);
    CHECK(o.count == 1, index(o.first), o.count);
    c.elements = parts_.plan.chunk(o.first).elements;
    if (parts_.plan.homes[index(o.first)].tier == Tier::disk) {
      hashes = std::span(hashes_[kinds]).first(parts_.ledger.blocks(o.first));
      seed = parts_.ledger.next_seed(o.first);
      hashed[kinds++] = o.first;
    }
    return parts_.memory.at(o.frame);
  };
  c.param = state(Kind::param, c.param_hashes, c.param_seed).data();
  if (split) c.master_low = state(Kind::master_low, c.low_hashes, c.low_seed).data();
  c.momentum = floats(state(Kind::momentum, c.momentum_hashes, c.momentum_seed));
  c.variance = floats(state(Kind::variance, c.variance_hashes, c.variance_seed));

  adamw(c, parts_.plan.precision, scalars, parts_.pool);
  for (u32 i = 0; i < kinds; ++i) {
    const ChunkId id = hashed[i];
    parts_.ledger.prepare(id, combine_checksums(std::span(hashes_[i]).first(parts_.ledger.blocks(id)),
                                                parts_.ledger.next_seed(id)));
  }
}

AdamWScalars update_scalars(const Plan& plan, const StepSource& source, u64 step, const StepResult& result) {
  const StepSettings settings = source.settings(step);
  if (!plan.clipping) return adamw_scalars(settings.adamw, step, 0, 0);
  return adamw_scalars(adamw_step(settings.adamw, step, settings.max_grad_norm), result.grad_norm, result.skipped);
}

}  // namespace tidepool
