#include "planner/verify/verify_pieces.h"

#include <fmt/format.h>

#include <vector>

namespace tidepool {
namespace {

// Turns checks that passes take micro-batches in order, and the pieces of each in order. Sums over
// micro-batches and pieces, as of gradients and of routers, are added in the order of ops.
class Turns {
 public:
  Turns(const Plan& plan, u32 blocks)
      : plan_(plan), blocks_(blocks), turns_(u64{plan.devices} * kinds * blocks) {}

  std::string wrong_with(const Op& op) {
    const u64 pass = op.kind == OpKind::forward ? 0 : op.kind == OpKind::recall ? 1 : 2;
    Turn& turn = turns_[(op.lane.device * kinds + pass) * blocks_ + op.block];
    const bool goes_on = turn.pieces != 0 && turn.pieces != plan_.pieces;
    if (goes_on && op.micro_batch != turn.micro_batch)
      return fmt::format("comes before the last pieces of micro-batch {}", turn.micro_batch);
    if (!goes_on && turn.micro_batch != none && op.micro_batch <= turn.micro_batch)
      return fmt::format("comes after micro-batch {}", turn.micro_batch);
    if (!goes_on) turn = {.micro_batch = op.micro_batch};
    const u32 wanted = from_the_last(op) ? plan_.pieces - 1 - turn.pieces : turn.pieces;
    if (op.piece != wanted) return fmt::format("runs piece {} where piece {} is next", op.piece, wanted);
    ++turn.pieces;
    return "";
  }

 private:
  struct Turn {
    u32 micro_batch = none;
    u32 pieces = 0;  // that have run
  };

  // The head runs once, with its loss, in the order of backward.
  bool from_the_last(const Op& op) const { return op.kind == OpKind::backward || op.block + 1 == blocks_; }

  static constexpr u64 kinds = 3;
  const Plan& plan_;
  const u32 blocks_;
  std::vector<Turn> turns_;  // of each device, kind of pass and block
};

// Held is what the past of a device holds: the first `pieces` pieces of a block's pass.
struct Held {
  OpKind kind{};
  u32 block = none, micro_batch = none;
  u32 pieces = 0;
};

const Operand* past_of(const Plan& plan, const Segment& segment, const Op& op) {
  for (const Operand& o : segment.operands_of(op))
    if (plan.chunk(o.first).kind == Kind::past) return &o;
  return nullptr;
}

std::string wrong_with(const Plan& plan, const Op& op, Access access, Held& held) {
  const bool same = held.block == op.block && held.micro_batch == op.micro_batch;
  if (op.kind == OpKind::backward) {
    if (!same || held.kind != OpKind::recall || held.pieces != op.piece + 1)
      return fmt::format("finds a past that does not end with its piece {}", op.piece);
    if (access != Access::read_write) return "does not change its past";
    --held.pieces;
    return "";
  }
  if (op.piece == 0) held = {.kind = op.kind, .block = op.block, .micro_batch = op.micro_batch};
  if (op.piece > 0 && (!same || held.kind != op.kind || held.pieces != op.piece))
    return fmt::format("finds no past of the pieces before its piece {}", op.piece);
  if (access != (op.piece == 0 ? Access::write : Access::read_write))
    return "does not begin its past with its first piece";
  if (++held.pieces > plan.pieces) return "has more pieces than its micro-batch";
  return "";
}

}  // namespace

StreamFault check_pieces(const Plan& plan, const ModelGraph& graph, const Segment& segment) {
  Turns turns(plan, static_cast<u32>(graph.blocks.size()));
  std::vector<Held> held(plan.devices);
  for (u32 i = 0; i < segment.ops.size(); ++i) {
    const Op& op = segment.ops[i];
    if (op.kind != OpKind::forward && op.kind != OpKind::recall && op.kind != OpKind::backward) continue;
    if (std::string text = turns.wrong_with(op); !text.empty()) return {std::move(text), i};
    const Block& block = graph.blocks[op.block];
    const Operand* past = past_of(plan, segment, op);
    if (past != nullptr && block.past.value == 0) return {"has a past where its block has none", i};
    if (past == nullptr && block.past.value > 0) return {"has no past", i};
    if (past == nullptr) continue;
    const bool trained = segment.kind != SegmentKind::evaluation && trains(graph);
    if (past->frame.bytes < block.past + (trained ? block.past_grad : Bytes{0}))
      return {"has too little room for its past", i};
    if (std::string text = wrong_with(plan, op, past->access, held[op.lane.device]); !text.empty())
      return {std::move(text), i};
  }
  return {};
}

}  // namespace tidepool
