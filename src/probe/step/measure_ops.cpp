#include "probe/step/measure_ops.h"

#include <algorithm>
#include <set>

#include "machine/roofline.h"
#include "model/mlps/experts/expert_layouts.h"
#include "probe/fill_device.h"
#include "tidepool/tensor_matrices.h"

namespace tidepool {
namespace {

// The first op of this kind on the block, with its inside kept or not.
std::optional<OpId> find_op(const Plan& plan, OpKind kind, u32 block, bool kept) {
  const Segment& body = plan.segment(SegmentKind::body);
  for (u32 id = 0; id < body.ops.size(); ++id) {
    const Op& op = body.ops[id];
    if (op.kind != kind || (kind == OpKind::gradient ? op.window : op.block) != block) continue;
    bool keeps = false;
    for (const Operand& o : body.operands_of(op)) keeps |= plan.chunk(o.first).kind == Kind::kept;
    if (keeps == kept || kind == OpKind::forward) return OpId{id};
  }
  return std::nullopt;
}

// A GPU that was idle starts slowly, and waiting for it takes longer than a small op. So the op runs often,
// one run after the other, and what a single run takes beyond that does not count.
template <class Run>
Result<double> seconds_on_gpu(Round round, Run&& run) {
  constexpr double times_max = 500;
  const auto seconds_of = [&](u32 times) -> Result<double> {
    const double begin = steady_seconds();
    TRY(run(times));
    return steady_seconds() - begin;
  };
  if (round.first) TRY(run(1));
  TRY_ASSIGN(const double one, seconds_of(1));
  const auto more =
      static_cast<u32>(std::clamp(round.sampling.op_seconds / std::max(one, 1e-9), 2.0, times_max));
  TRY(run(more));  // the clock rises
  TRY_ASSIGN(const double alone, seconds_of(1));
  TRY_ASSIGN(const double all, seconds_of(1 + more));
  return std::max(all - alone, 0.5 * all) / more;
}

Result<void> bring_routes(const ModelGraph& graph, Device& device, std::span<std::byte> at) {
  std::vector<std::byte> routes(at.size());
  make_even_routes(graph, routes.data());
  return bring_to_device(device, at, routes);
}

// Fills a frame on the device where the op will find it. Numbers of tokens and experts must be valid; and the
// speed of a GPU depends on the values that it multiplies.
Result<void> bring_content(Session& session, const Operand& o) {
  if (o.frame.tier != Tier::device) return {};
  Device& device = session.devices().at(o.frame.device);
  const std::span<std::byte> at = device.memory().subspan(o.frame.offset, o.frame.bytes.value);
  const Kind kind = session.plan().chunk(o.first).kind;
  if (kind == Kind::batch) {
    device.kernels().zero(reinterpret_cast<float*>(at.data()), at.size() / sizeof(float));
  } else if (kind == Kind::routes) {
    return bring_routes(session.graph(), device, at);
  } else if (device.facts().gpu) {
    constexpr float weights = 0.04f, values = 1.0f;
    if (kind == Kind::param || kind == Kind::grad)
      return fill_device(device, at, session.plan().precision, weights);
    if (kind == Kind::expert_sum || kind == Kind::normed_grad)
      return fill_device(device, at, Precision::fp32, values);
    if (kind == Kind::past || kind == Kind::kept || (is_stream(kind) && kind != Kind::router_sums))
      return fill_device(device, at, session.graph().activations, values);
  }
  return {};
}

// RETURNS: true if both belong to layers and have the same kernels. A model's layers may differ in their
// attention's window, and groups of experts in their size.
bool are_alike(const Block& a, const Block& b) {
  return a.layer != none && a.kind == b.kind && a.forward_kernels == b.forward_kernels;
}

}  // namespace

Result<double> op_seconds(Session& session, Round round, std::optional<OpId> op) {
  const u32 samples_min = round.first ? 2 : 1;
  if (!op) return 0.0;
  const Segment& body = session.plan().segment(SegmentKind::body);
  for (const Operand& o : body.operands_of(body.ops[index(*op)])) TRY(bring_content(session, o));
  const auto run = [&](u32 times) { return session.timed().run_at_rest(body, *op, times); };
  if (session.devices().are_gpus()) return seconds_on_gpu(round, run);
  return cold_seconds_of(session, round, samples_min, [&] { return run(1); });
}

Result<std::vector<BlockSeconds>> measure_blocks(Session& session, Round round) {
  const std::vector<Block>& blocks = session.graph().blocks;
  std::vector<BlockSeconds> out(blocks.size());
  for (u32 b = 0; b < out.size(); ++b) {
    u32 first = 0;
    while (first < b && !are_alike(blocks[first], blocks[b])) ++first;
    if (first < b) {
      out[b] = out[first];
      continue;
    }
    // Seconds of a whole micro-batch, by what the measured piece takes of it.
    const auto seconds = [&](OpKind kind, bool kept) -> Result<double> {
      std::optional<OpId> op = find_op(session.plan(), kind, b, kept);
      for (u32 other = b + 1; !op && other < out.size(); ++other)
        if (are_alike(blocks[b], blocks[other])) op = find_op(session.plan(), kind, other, kept);
      TRY_ASSIGN(const double seconds, op_seconds(session, round, op));
      if (!op) return seconds;
      const u32 piece = session.plan().segment(SegmentKind::body).ops[index(*op)].piece;
      const double share = kind == OpKind::recall ? 1.0 / session.plan().pieces : blocks[b].share_of(piece);
      return seconds / share;
    };
    TRY_ASSIGN(out[b].forward, seconds(OpKind::forward, false));
    TRY_ASSIGN(out[b].backward, seconds(OpKind::backward, true));
    TRY_ASSIGN(out[b].backward_recompute, seconds(OpKind::backward, false));
    TRY_ASSIGN(out[b].recall, seconds(OpKind::recall, false));
  }
  return out;
}

Result<std::vector<double>> measure_matrices(Session& session, Round round, const Machine& machine) {
  const Plan& plan = session.plan();
  const Segment& body = plan.segment(SegmentKind::body);
  const ModelGraph& graph = session.graph();
  std::vector<double> predicted, out(graph.matrix_costs.size(), 0);  // by shape
  for (const MatrixCost& cost : graph.matrix_costs)
    predicted.push_back(kernel_seconds(cost.kernels, machine, graph.precision));
  for (u32 id = 0; id < body.ops.size(); ++id) {
    if (body.ops[id].kind != OpKind::orthogonalize) continue;
    const Chunk& chunk = plan.chunk(body.operands_of(body.ops[id])[0].first);
    double all = 0;
    std::set<u32> not_measured;
    for (const MatrixPlace& matrix : matrices_between(graph.windows[chunk.window], chunk.element_begin,
                                                      chunk.element_begin + chunk.elements)) {
      const u32 shape = shape_of(graph, matrix);
      all += predicted[shape];
      if (out[shape] == 0) not_measured.insert(shape);
    }
    if (not_measured.empty()) continue;
    TRY_ASSIGN(const double seconds, op_seconds(session, round, OpId{id}));
    for (const u32 shape : not_measured) out[shape] = predicted[shape] * seconds / all;
  }
  return out;
}

}  // namespace tidepool
