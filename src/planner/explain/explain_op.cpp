// explain_op() says in words what an operation touches, what it waits for, and why (`--explain op:N`).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "planner/explain/explain_parts.h"

namespace tidepool {
namespace {

using Out = std::back_insert_iterator<std::string>;

bool moves_one(OpKind kind) { return is_movement(kind) && !is_collective(kind); }

std::string why(const ExplainInput& in, const Op& op) {
  switch (op.kind) {
    case OpKind::load_batch:
      return "the embedding and the loss need this micro-batch's tokens";
    case OpKind::lookup:
      return "the embedding needs the rows of this micro-batch's tokens, and not the whole table";
    case OpKind::forward:
      return "the next block needs its output";
    case OpKind::backward:
      return "the block before needs the gradient of its input, the updates that of its weights";
    case OpKind::recall:
      return "the backward of later pieces needs what this one hands to them, which forward did not keep";
    case OpKind::gradient:
      return "every use of the window has added its part: the sum is rounded once, and measured";
    case OpKind::norm:
      if (in.plan.precision == Precision::fp16)
        return "an overflow anywhere in the gradient must leave every weight as it is, and the norm shows it";
      if (in.plan.speculates) return "it shows whether the updates have assumed the right clip factor";
      return in.plan.clipping ? "updates need the clip factor, which the whole gradient's norm gives"
                              : "the step's loss and gradient norm are reported";
    case OpKind::update:
      return op.steps_back != 0
                 ? "the norm is known only after the backward, so the next forward's block waits for it"
             : in.plan.speculates
                 ? "the gradient is whole, and is assumed to need no clipping: else the step is trained again"
                 : "the gradient is whole, and nothing clips it";
    case OpKind::direction:
      return "gradient and momentum become the step's direction, which takes the gradient's place";
    case OpKind::orthogonalize:
      return "the optimizer makes each matrix of the direction nearly orthogonal before the update follows "
             "it";
    case OpKind::all_gather:
      return "each device has brought its own cuts; every device needs the whole window";
    case OpKind::reduce_scatter:
      return "each device has a gradient of its own micro-batches; owners need the sum";
    case OpKind::combine:
      return "each node has a gradient of its own micro-batches, and this one updates the cut";
    case OpKind::pack:
      return "the loss and the norm are made of all nodes' parts";
    case OpKind::send:
      return op.window == none ? "every node makes the loss and the norm itself"
             : in.plan.chunk(in.plan.segment(SegmentKind::body).operands_of(op)[0].first).kind == Kind::param
                 ? "every node computes with the updated parameters"
                 : "that node updates the cut";
    case OpKind::receive:
      return "what the other node made is needed here";
    case OpKind::commit:
      return "all that the step has changed is on disk: a killed run resumes from here";
    default:
      return "";
  }
}

// Names the next reader of the content that a movement brings.
std::string why_moved(const ExplainInput& in, const Life& life, u32 i) {
  const Segment& segment = life.segment();
  const Operand& to = segment.operands_of(segment.ops[i])[1];
  if (segment.ops[i].persists)
    return "it rests elsewhere; in steps that are committed its copy on disk, from which a killed run "
           "resumes, is made anew";
  if (to.frame.tier == Tier::disk) {
    const bool home = !in.plan.homes.empty() && in.plan.homes[index(to.first)].bytes.value > 0;
    return home ? "its home is the disk, and what changed must be there before its room in the host is given "
                  "away"
                : "the host has no room for it until it is needed";
  }
  const auto next = life.next(to.first, i, &to.frame);
  if (!next) return "it goes home";
  return fmt::format("{}, {} ops later, needs it in the {}: {}", op_number(life, i, next->ahead), next->ahead,
                     memory_name(in.plan, to.frame), op_name(in, segment, next->touch.op));
}

void add_operands(Out out, const ExplainInput& in, const Life& life, u32 i) {
  const Segment& segment = life.segment();
  for (const Operand& o : segment.operands_of(segment.ops[i])) {
    const char* verb = o.access == Access::read ? "reads" : o.access == Access::write ? "writes" : "updates";
    const std::string ids = o.count > 1
                                ? fmt::format("chunks {}-{}", index(o.first), index(o.first) + o.count - 1)
                                : fmt::format("chunk {}", index(o.first));
    fmt::format_to(out, "  {} {}: {}\n      {} in the {}, bytes [{}, {})\n", verb, ids,
                   content_name(in, o.first, o.count), size_name(o.frame.bytes),
                   memory_name(in.plan, o.frame), o.frame.offset, o.frame.end());
  }
}

// Content that was last in the bytes that the movement fills.
std::optional<TierStay> evicted(const Life& life, const Operand& to, u32 i) {
  std::optional<TierStay> last;
  u32 least_age = none;
  for (const TierStay& s : life.stays()) {
    const bool overlaps =
        same_memory(s.frame, to.frame) && s.frame.offset < to.frame.end() && to.frame.offset < s.frame.end();
    if (!overlaps || s.whole || s.chunk == to.first || life.covers(s, i)) continue;
    const u32 end = s.end % life.ops();
    if (end > i && !life.circular()) continue;
    const u32 age = end < i ? i - end : i + life.ops() - end;
    if (age < least_age) least_age = age, last = s;
  }
  return last;
}

// If the content is nowhere else, a later chunk of the same name is new content.
bool lives_elsewhere(const Life& life, const TierStay& gone, u32 i) {
  return std::any_of(life.stays().begin(), life.stays().end(), [&](const TierStay& s) {
    return s.chunk == gone.chunk && !same_memory(s.frame, gone.frame) && life.covers(s, i);
  });
}

// "the furthest of 14": rank among the contents that wait in the same memory.
std::string rank(const std::vector<Waiting>& others, u32 ahead) {
  const auto later =
      std::count_if(others.begin(), others.end(), [&](const Waiting& w) { return w.ahead > ahead; });
  if (later == 0) return fmt::format("the furthest of {}", others.size() + 1);
  return fmt::format("{} of the {} that stay are used later, and save more", later, others.size());
}

void add_eviction(Out out, const ExplainInput& in, const Life& life, u32 i) {
  const Segment& segment = life.segment();
  const Operand& to = segment.operands_of(segment.ops[i])[1];
  if (to.frame.tier == Tier::disk) return;
  const std::vector<Waiting> others = waiting_at(in, life, to.frame, i);
  const std::optional<TierStay> before = evicted(life, to, i);
  if (before) {
    fmt::format_to(out, "  takes the room of chunk {}: {}\n", index(before->chunk),
                   content_name(in, before->chunk));
    const auto next = life.next(before->chunk, i, &before->frame);
    if (next && lives_elsewhere(life, *before, i)) {
      fmt::format_to(out, "      last used by op {}, back at {}: {}\n", before->end % life.ops(),
                     op_number(life, i, next->ahead), rank(others, next->ahead));
    } else {
      fmt::format_to(out, "      last used by op {}, and not needed any more\n", before->end % life.ops());
    }
  }
  if (others.empty()) return;
  Bytes bytes{};
  for (const Waiting& w : others) bytes += w.bytes;
  fmt::format_to(out, "  meanwhile {} stays in the {} for later, first {} (next at {})\n", size_name(bytes),
                 memory_name(in.plan, to.frame), content_name(in, others[0].first),
                 op_number(life, i, others[0].ahead));
}

}  // namespace

std::string explain_op(const ExplainInput& in, const Life& life, u32 i) {
  const Segment& segment = life.segment();
  const Op& op = segment.ops[i];
  const bool moved = moves_one(op.kind);
  std::string text = fmt::format("op {}: {}\n", i, op_name(in, segment, i));
  Out out(text);
  fmt::format_to(out, "  why: {}\n", moved ? why_moved(in, life, i) : why(in, op));
  add_operands(out, in, life, i);
  if (moved) add_eviction(out, in, life, i);
  for (OpId dep : segment.deps_of(op))
    fmt::format_to(out, "  waits for op {}: {}\n", index(dep), op_name(in, segment, index(dep)));
  return text;
}

}  // namespace tidepool
