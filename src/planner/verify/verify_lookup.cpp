#include "planner/verify/verify_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

bool is_lookup(const Plan& plan, const Op& op, std::span<const Operand> operands) {
  return op.lane.kind == LaneKind::host && op.window == plan.lookup.window && op.block == plan.lookup.block &&
         op.micro_batch < plan.micro_batches && operands.size() == 1 && operands[0].count == 1 &&
         operands[0].access == Access::write && operands[0].frame.tier == Tier::host &&
         plan.chunk(operands[0].first).kind == Kind::rows;
}

std::string wrong_with_rows_of(const Plan& plan, const Segment& segment) {
  std::vector<u32> made_for(plan.chunks.size(), none);  // micro-batch whose rows the chunk has
  for (u32 i = 0; i < segment.ops.size(); ++i) {
    const Op& op = segment.ops[i];
    const std::span<const Operand> operands = segment.operands_of(op);
    if (op.kind == OpKind::lookup) {
      if (!is_lookup(plan, op, operands))
        return fmt::format("{} op {} is no lookup of one micro-batch's rows into the host",
                           name(segment.kind), i);
      made_for[index(operands[0].first)] = op.micro_batch;
      continue;
    }
    u32 rows = 0;
    for (const Operand& o : operands) {
      const Chunk& chunk = plan.chunk(o.first);
      if (chunk.window == plan.lookup.window)
        return fmt::format("{} op {} touches a table whose rows are looked up", name(segment.kind), i);
      if (chunk.kind != Kind::rows) continue;
      ++rows;
      if (op.kind == OpKind::forward && made_for[index(o.first)] != op.micro_batch)
        return fmt::format("{} op {} finds the rows of another micro-batch", name(segment.kind), i);
      if (op.kind != OpKind::forward && op.kind != OpKind::copy)
        return fmt::format("{} op {} touches rows of a table", name(segment.kind), i);
    }
    const u32 expected = op.kind == OpKind::forward && op.block == plan.lookup.block ? 1
                         : op.kind == OpKind::copy                                   ? rows
                                                                                     : 0;
    if (rows != expected)
      return fmt::format("{} op {} takes {} chunks of rows instead of {}", name(segment.kind), i, rows,
                         expected);
  }
  return "";
}

}  // namespace

std::string wrong_with_lookup(const Plan& plan, const ModelGraph& graph) {
  if (!plan.lookup.on()) return "";
  if (plan.lookup.window != lookup_window(graph) || plan.lookup.block != lookup_block(graph))
    return "rows of a window are looked up that blocks read whole";
  const std::vector<u64>& shape = graph.windows[plan.lookup.window].tensors[0].shape;
  if (plan.lookup.row_elements != shape[1] || plan.lookup.rows_most != std::min(graph.batch.rows(), shape[0]))
    return "rows that are looked up have another size than the table's, or are too few";
  for (const Chunk& chunk : plan.chunks)
    if (chunk.kind == Kind::rows && chunk.bytes != lookup_bytes(plan.lookup, plan.precision))
      return "a chunk of rows has not the size of a micro-batch's most";
  for (const Segment& segment : plan.segments)
    if (std::string wrong = wrong_with_rows_of(plan, segment); !wrong.empty()) return wrong;
  return "";
}

}  // namespace tidepool
