// Micro-batches of long sequences: their tiles and pieces, plans with pieces, and plans in which their order
// is wrong.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "model/blocks.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"

namespace tidepool::pieces_test {

using ::testing::HasSubstr;

TEST(RowTiles, OfASequenceEndWithIt) {
  const BatchShape batch = {.sequences = 2, .tokens = 20, .tile_tokens = 8, .piece_tiles = 2};
  ASSERT_TRUE(batch.tiled());
  EXPECT_EQ(batch.tiles(), 6u);
  EXPECT_EQ(batch.tile(2),
            (RowTile{.number = 2, .sequence = 0, .first_token = 16, .first_row = 16, .rows = 4}));
  EXPECT_EQ(batch.tile(3),
            (RowTile{.number = 3, .sequence = 1, .first_token = 0, .first_row = 20, .rows = 8}));
  EXPECT_EQ(batch.pieces(), 3u);
  const RowPiece middle = batch.piece(1);  // the end of one sequence and the beginning of the next
  EXPECT_EQ(middle.first_row, 16u);
  EXPECT_EQ(middle.rows, 12u);
  EXPECT_EQ(batch.piece_rows(), 16u);
  EXPECT_EQ(batch.piece(2).first_row + batch.piece(2).rows, batch.rows());
}

TEST(RowTiles, AreAllRowsOfShortSequences) {
  const BatchShape batch = {.sequences = 3, .tokens = 8, .tile_tokens = 8, .piece_tiles = 1};
  EXPECT_FALSE(batch.tiled());
  EXPECT_EQ(batch.pieces(), 1u);
  EXPECT_EQ(batch.tile(0).rows, 24u);
  EXPECT_EQ(batch.piece_rows(), 24u);
}

ModelGraph graph_of(u32 piece_tiles, u32 experts = 0) {
  ModelConfig config = default_model(Family::llama);
  if (experts != 0) config = default_model(Family::mixtral);
  config.vocab_size = 64, config.positions = 512, config.width = 32, config.layers = 3;
  config.attention.heads = 4, config.attention.kv_heads_given = 2;
  config.mlp.inner_given = 64;
  return build_model(config, Precision::bf16,
                     {.sequences = 1, .tokens = 448, .tile_tokens = 64, .piece_tiles = piece_tiles})
      .value();
}
const ModelGraph& graph() {
  static const ModelGraph g = graph_of(2);
  return g;
}

Plan plan_of(const ModelGraph& g, Bytes device) {
  auto made = make_plan(g, {.budgets = {device, Bytes{8 * mib}, Bytes{64 * mib}},
                            .micro_batches = 2,
                            .chunk_bytes = Bytes{16 * kib}});
  EXPECT_TRUE(made) << made.error().message;
  return std::move(made).value();
}
Plan plan() { return plan_of(graph(), Bytes{8 * mib}); }

TEST(Pieces, RunForwardInOrderAndBackwardFromTheLast) {
  const Plan p = plan();
  EXPECT_EQ(p.pieces, 4u);
  std::string order;
  for (const Op& op : p.segment(SegmentKind::body).ops)
    if (op.block == 2 && op.micro_batch == 1 && is_of_piece(op.kind))
      order += name(op.kind)[0] + std::to_string(op.piece);
  EXPECT_EQ(order, "f0f1f2f3r0r1r2r3b3b2b1b0");
}

TEST(Pieces, NeedLessOfADeviceThanAWholeSequence) {
  const auto least = [](const ModelGraph& g) {
    return least_budgets(g,
                         {.budgets = {Bytes{4096}, Bytes{8 * mib}, Bytes{64 * mib}},
                          .micro_batches = 1,
                          .chunk_bytes = Bytes{16 * kib}},
                         {Bytes{gib}, Bytes{8 * mib}, Bytes{64 * mib}})
        ->device;
  };
  const Bytes whole = least(graph_of(0)), pieces = least(graph_of(1));
  EXPECT_LT(pieces, whole);
}

// All pieces add to one chunk, of which the backward of each reads the sum.
TEST(Pieces, ShareTheSumsOfRouters) {
  const ModelGraph experts = graph_of(2, 4);
  const Plan p = plan_of(experts, Bytes{8 * mib});
  ASSERT_EQ(p.pieces, 4u);
  std::set<u32> sums, routes;
  u32 begun = 0;
  const Segment& body = p.segment(SegmentKind::body);
  for (const Op& op : body.ops) {
    if (op.micro_batch != 0) continue;
    for (const Operand& o : body.operands_of(op)) {
      if (p.chunk(o.first).kind == Kind::routes && op.block == 1) routes.insert(index(o.first));
      if (p.chunk(o.first).kind != Kind::router_sums) continue;
      sums.insert(index(o.first));
      begun += op.kind == OpKind::forward && o.access == Access::write;
    }
  }
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_EQ(begun, 1u);
  EXPECT_EQ(routes.size(), 4u);
}

// At each border between two tiles a state of every head rests, whatever the pieces; backward has two.
TEST(Pieces, OfRecurrentLayersHandOnStates) {
  ModelConfig config = default_model(Family::qwen3_5_text);
  config.vocab_size = 64;
  const auto past_of = [&](u32 tokens) {
    const ModelGraph g = build_model(config, Precision::fp32,
                                     {.sequences = 1, .tokens = tokens, .tile_tokens = 64, .piece_tiles = 2})
                             .value();
    EXPECT_TRUE(g.batch.tiled());
    for (const Block& block : g.blocks)
      if (block.kind == BlockKind::layer && config.mixer_kind(block.layer) == MixerKind::gated_delta)
        return std::pair(block.past, block.past_grad);
    return std::pair(Bytes{}, Bytes{});
  };
  const auto [three, gradients] = past_of(256);
  const auto [six, same] = past_of(448);
  EXPECT_GT(three, Bytes{3 * sizeof(float) * config.delta.value_heads * config.delta.key_head_dim *
                         config.delta.value_head_dim});
  EXPECT_EQ(six, three * 2);
  EXPECT_EQ(gradients, same);
}

// The first op of a piece in the body.
Op& op_of(Plan& p, OpKind kind, u32 block, u32 piece) {
  for (Op& op : p.segments[static_cast<u32>(SegmentKind::body)].ops)
    if (op.kind == kind && op.block == block && op.piece == piece) return op;
  ADD_FAILURE() << name(kind);
  std::abort();
}

u32 block_of(const ModelGraph& g, BlockKind kind) {
  for (u32 b = 0; b < g.blocks.size(); ++b)
    if (g.blocks[b].kind == kind) return b;
  ADD_FAILURE() << "no such block";
  return 0;
}

// Lets two pieces change places, with the versions that they then find: all is in order but the order itself.
void swap_runs(Plan& p, OpKind kind, u32 block, u32 first, u32 second) {
  Segment& body = p.segments[static_cast<u32>(SegmentKind::body)];
  Op &a = op_of(p, kind, block, first), &b = op_of(p, kind, block, second);
  for (u32 i = a.operands_begin; i < a.operands_begin + a.operands_count; ++i)
    for (u32 j = b.operands_begin; j < b.operands_begin + b.operands_count; ++j)
      if (body.operands[i].first == body.operands[j].first)
        std::swap(body.operands[i].version, body.operands[j].version);
  std::swap(a, b);
}

void expect_refused(const Plan& p, const std::string& words, const ModelGraph& g = graph()) {
  const Result<void> verified = verify_plan(p, g);
  ASSERT_FALSE(verified);
  EXPECT_THAT(verified.error().message, HasSubstr(words));
}

TEST(VerifyPieces, AcceptsThePlannersPlan) { EXPECT_TRUE(verify_plan(plan(), graph())); }

TEST(VerifyPieces, CanaryThatBeginsInTheMiddleIsRefused) {
  Plan p = plan();
  Segment& body = p.segments[static_cast<u32>(SegmentKind::body)];
  const Op& op = op_of(p, OpKind::recall, 1, 0);
  for (u32 i = op.operands_begin; i < op.operands_begin + op.operands_count; ++i) {
    Operand& o = body.operands[i];
    if (p.chunk(o.first).kind != Kind::past) continue;
    o.access = Access::read_write;
    --o.version;
  }
  expect_refused(p, "does not begin its past with its first piece");
}

TEST(VerifyPieces, CanaryWithAPieceTwiceIsRefused) {
  Plan p = plan();
  op_of(p, OpKind::recall, 1, 1).piece = 2;
  expect_refused(p, "takes activation of another micro-batch");
}

TEST(VerifyPieces, CanaryWithPiecesInTheWrongOrderIsRefused) {
  Plan p = plan();
  std::swap(op_of(p, OpKind::recall, 1, 1), op_of(p, OpKind::recall, 1, 2));
  expect_refused(p, "runs piece 2 where piece 1 is next");
}

// A block without a past: the sums of its routers and gradients would come in another order.
TEST(VerifyPieces, CanaryWithPiecesOfExpertsInTheWrongOrderIsRefused) {
  const ModelGraph experts = graph_of(2, 4);
  const u32 block = block_of(experts, BlockKind::experts);
  Plan p = plan_of(experts, Bytes{8 * mib});
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    Plan swapped = p;
    swap_runs(swapped, kind, block, 1, 2);
    expect_refused(
        swapped,
        kind == OpKind::forward ? "runs piece 2 where piece 1 is next" : "runs piece 1 where piece 2 is next",
        experts);
  }
}

TEST(VerifyPieces, CanaryWithPiecesOfTheHeadInTheWrongOrderIsRefused) {
  Plan p = plan();
  swap_runs(p, OpKind::backward, static_cast<u32>(graph().blocks.size()) - 1, 0, 1);
  expect_refused(p, "runs piece 0 where piece 1 is next");
}

TEST(VerifyPieces, CanaryThatBeginsTheSumsOfRoutersAnewIsRefused) {
  const ModelGraph experts = graph_of(2, 4);
  Plan p = plan_of(experts, Bytes{8 * mib});
  Segment& body = p.segments[static_cast<u32>(SegmentKind::body)];
  const Op& op = op_of(p, OpKind::forward, 1, 1);
  for (u32 i = op.operands_begin; i < op.operands_begin + op.operands_count; ++i) {
    Operand& o = body.operands[i];
    if (p.chunk(o.first).kind == Kind::router_sums) o.access = Access::write;
  }
  expect_refused(p, "takes router_sums where its block uses router_sums", experts);
}

TEST(VerifyPieces, CanaryOfAPieceThatThereIsNotIsRefused) {
  Plan p = plan();
  op_of(p, OpKind::backward, 1, 3).piece = 4;
  expect_refused(p, "names no block, micro-batch or piece");
}

}  // namespace tidepool::pieces_test
