#include "executor/shared/collective_op.h"

#include "executor/shared/operand_cursor.h"

namespace tidepool {
namespace {

bool holds(const Operand& o, ChunkId id) {
  return index(id) >= index(o.first) && index(id) < index(o.first) + o.count;
}

u64 bytes_before(const Plan& plan, const Operand& o, ChunkId id) {
  u64 bytes = 0;
  for (u32 before = index(o.first); before < index(id); ++before) bytes += plan.chunks[before].bytes.value;
  return bytes;
}

}  // namespace

CollectiveParts<GatheredCuts> gathered_cuts(const Plan& plan, const TierMemory& memory, const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  CollectiveParts<GatheredCuts> parts;
  for (const Operand& from : operands) {
    if (from.access != Access::read) continue;
    GatheredCuts& cuts = parts.add();
    cuts.owner = from.frame.device;
    cuts.from = memory.at(from.frame);
    for (const Operand& to : operands)
      if (to.access != Access::read && holds(to, from.first))
        cuts.to[to.frame.device] =
            memory.at(to.frame).subspan(bytes_before(plan, to, from.first), cuts.from.size()).data();
  }
  return parts;
}

CollectiveParts<ScatteredSum> scattered_sums(const Plan& plan, const TierMemory& memory, const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  CollectiveParts<ScatteredSum> parts;
  for (const Operand& to : operands.subspan(plan.replicas())) {
    const Chunk& first = plan.chunk(to.first);
    CHECK(to.access == Access::write && first.kind == Kind::grad_accum, index(to.first));
    ScatteredSum& sum = parts.add();
    sum.owner = to.frame.device;
    sum.sum = floats(memory.at(to.frame));
    sum.elements = to.frame.bytes.value / sizeof(float);
    for (u32 d = 0; d < plan.replicas(); ++d)
      sum.from[d] = floats(memory.at(operands[d].frame)) + first.element_begin;
  }
  return parts;
}

}  // namespace tidepool
