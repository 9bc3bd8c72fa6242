#include "executor/shared/block_op.h"

#include <algorithm>
#include <array>

#include "executor/shared/operand_cursor.h"
#include "kernels/orthogonalize/orthogonalize.h"

namespace tidepool {
namespace {

Values values(const BlockOpParts& parts, std::span<std::byte> bytes) {
  return {bytes.data(), parts.graph.activations};
}

BatchView batch_view(const BatchShape& batch, std::span<const std::byte> bytes) {
  const BatchList list = batch.arrays();
  const auto place = [&](BatchArray which) {
    return list.has(which) ? bytes.data() + list.offset(which, batch.rows()) : nullptr;
  };
  const auto ids = [&](BatchArray which) { return reinterpret_cast<const i32*>(place(which)); };
  const auto numbers = [&](BatchArray which) { return reinterpret_cast<const float*>(place(which)); };
  return {.tokens = ids(BatchArray::tokens),
          .targets = ids(BatchArray::targets),
          .starts = ids(BatchArray::starts),
          .holes = reinterpret_cast<const KeyHole*>(place(BatchArray::holes)),
          .table_tokens = ids(BatchArray::table_tokens),
          .sequences = ids(BatchArray::sequences),
          .values = numbers(BatchArray::values),
          .references = numbers(BatchArray::references),
          .old_logps = numbers(BatchArray::old_logps),
          .distributions = numbers(BatchArray::distributions)};
}

struct StreamsOfOp {
  Values input, output, grad, layer_inputs, layer_inputs_grad, shared_keys, shared_keys_grad;
  ExpertStreams experts;
};

void set_stream(StreamsOfOp& s, Kind kind, Access access, Values values) {
  const auto as_floats = [&] { return reinterpret_cast<float*>(values.data); };
  switch (kind) {
    case Kind::activation:
      return void((access == Access::read ? s.input : s.output) = values);
    case Kind::post_attention:
      return void(s.experts.post_attention = values);
    case Kind::normed:
      return void(s.experts.normed = values);
    case Kind::routes:
      return void(s.experts.routes = values.data);
    case Kind::expert_sum:
      return void(s.experts.sum = as_floats());
    case Kind::router_sums:
      return void(s.experts.router_sums = values.data);
    case Kind::branches:
      return void(s.experts.branches = values);
    case Kind::branches_grad:
      return void(s.experts.branches_grad = values);
    case Kind::shared_keys:
      return void(s.shared_keys = values);
    case Kind::shared_keys_grad:
      return void(s.shared_keys_grad = values);
    case Kind::layer_inputs:
      return void(s.layer_inputs = values);
    case Kind::layer_inputs_grad:
      return void(s.layer_inputs_grad = values);
    case Kind::activation_grad:
      return void(s.grad = values);
    case Kind::normed_grad:
      return void(s.experts.normed_grad = as_floats());
    case Kind::routes_grad:
      return void(s.experts.routes_grad = as_floats());
    default:
      CHECK(false, name(kind));
  }
}

// Takes operands as long as they are streams.
void take_streams(StreamsOfOp& s, const BlockOpParts& parts, OperandCursor& operands) {
  while (const Operand* o = operands.next_stream())
    set_stream(s, parts.plan.chunk(o->first).kind, o->access, values(parts, parts.memory.at(o->frame)));
}

BlockContext context(const BlockOpParts& parts, Kernels& kernels, const Issue& issue) {
  return {.kernels = kernels,
          .graph = parts.graph,
          .block = issue.get().block,
          .seed = parts.seed,
          .step = issue.step,
          .micro_batch = issue.get().micro_batch,
          .piece = issue.get().piece,
          .training = issue.segment->kind != SegmentKind::evaluation};
}

}  // namespace

void run_forward(const BlockOpParts& parts, Kernels& kernels, const Issue& issue,
                 const HeadForward& of_head) {
  const Block& block = parts.graph.blocks[issue.get().block];
  const bool head = block.kind == BlockKind::head;
  OperandCursor operands(parts.plan, parts.memory, issue);
  BlockForward f;
  if (reads_batch(parts.graph, block)) f.batch = batch_view(parts.graph.batch, operands.take(Kind::batch));
  std::array<const std::byte*, block_windows_max> windows{};
  CHECK(block.windows.size() <= windows.size(), block.windows.size());
  for (u32 i = 0; i < block.windows.size(); ++i) {
    const bool looked_up = block.windows[i] == parts.plan.lookup.window;
    windows[i] = operands.take(looked_up ? Kind::rows : Kind::param).data();
  }
  f.windows = std::span(windows).first(block.windows.size());
  StreamsOfOp streams;
  take_streams(streams, parts, operands);
  f.input = streams.input, f.output = streams.output, f.experts = streams.experts;
  f.layer_inputs = streams.layer_inputs, f.shared_keys = streams.shared_keys;
  f.kept = operands.take_if(Kind::kept).data();
  f.past = operands.take_if(Kind::past).data();
  f.workspace = operands.take(Kind::workspace).data();
  if (head) {
    CHECK(issue.segment->kind == SegmentKind::evaluation, issue.sequence);
    f.head = of_head;
  }
  block_forward(context(parts, kernels, issue), f);
}

ObjectiveBackward head_backward(const StepSource& source, u64 step, Sums* sums, const float* loss_scale) {
  const u64 targets = source.settings(step).target_tokens;
  return {.sums = sums,
          .inverse_targets = 1.0 / static_cast<double>(std::max<u64>(targets, 1)),
          .loss_scale = loss_scale};
}

void run_backward(const BlockOpParts& parts, Kernels& kernels, const Issue& issue,
                  const ObjectiveBackward& objective) {
  const Block& block = parts.graph.blocks[issue.get().block];
  const u32 count = static_cast<u32>(block.windows.size());
  CHECK(count <= block_windows_max, count);
  OperandCursor operands(parts.plan, parts.memory, issue);
  BlockBackward b;
  if (reads_batch(parts.graph, block)) b.batch = batch_view(parts.graph.batch, operands.take(Kind::batch));
  std::array<const std::byte*, block_windows_max> windows{};
  if (block.kind != BlockKind::embedding) {  // the embedding's gradient needs no parameters
    for (u32 i = 0; i < count; ++i) windows[i] = operands.take(Kind::param).data();
    b.windows = std::span(windows).first(count);
  }
  StreamsOfOp streams;
  take_streams(streams, parts, operands);
  b.kept = operands.take_if(Kind::kept).data();
  take_streams(streams, parts, operands);
  b.input = streams.input, b.grad = streams.grad, b.experts = streams.experts;
  b.shared_keys = streams.shared_keys, b.shared_keys_grad = streams.shared_keys_grad;
  b.layer_inputs = streams.layer_inputs, b.layer_inputs_grad = streams.layer_inputs_grad;
  std::array<float*, block_windows_max> accumulators{};
  u32 overwritten = 0, trained = 0;
  for (u32 i = 0; i < count; ++i) {
    if (!parts.graph.windows[block.windows[i]].trainable) continue;
    const Operand& o = operands.next(Kind::grad_accum);
    ++trained;
    accumulators[i] = floats(parts.memory.at(o.frame));
    overwritten += o.access == Access::write;
  }
  CHECK(overwritten == 0 || overwritten == trained, overwritten, trained);
  b.grad_accum = std::span(accumulators).first(count);
  b.accumulate = overwritten == 0;
  b.past = operands.take_if(Kind::past).data();
  b.workspace = operands.take(Kind::workspace).data();
  b.objective = objective;
  block_backward(context(parts, kernels, issue), b);
}

void run_recall(const BlockOpParts& parts, Kernels& kernels, const Issue& issue) {
  const Block& block = parts.graph.blocks[issue.get().block];
  OperandCursor operands(parts.plan, parts.memory, issue);
  BlockBackward b;
  if (reads_batch(parts.graph, block)) b.batch = batch_view(parts.graph.batch, operands.take(Kind::batch));
  std::array<const std::byte*, block_windows_max> windows{};
  const u32 count = static_cast<u32>(block.windows.size());
  for (u32 i = 0; i < count; ++i) windows[i] = operands.take(Kind::param).data();
  b.windows = std::span(windows).first(count);
  StreamsOfOp streams;
  take_streams(streams, parts, operands);
  b.input = streams.input, b.shared_keys = streams.shared_keys;
  b.kept = operands.take_if(Kind::kept).data();
  b.past = operands.take(Kind::past).data();
  b.workspace = operands.take(Kind::workspace).data();
  block_recall(context(parts, kernels, issue), b);
}

void run_orthogonalize(const BlockOpParts& parts, Kernels& kernels, const Issue& issue) {
  OperandCursor operands(parts.plan, parts.memory, issue);
  const Operand& direction = operands.next(parts.plan.state_slots.gradient());
  const Values values(parts.memory.at(direction.frame).data(), parts.plan.precision);
  std::byte* const workspace = operands.take(Kind::workspace).data();
  const Chunk& chunk = parts.plan.chunk(direction.first);
  const Orthogonalization& rule = parts.graph.rules[chunk.rule].orthogonalization;
  each_matrix_between(parts.graph.windows[chunk.window], chunk.element_begin,
                      chunk.element_begin + chunk.elements, [&](const MatrixPlace& matrix) {
                        orthogonalize(kernels,
                                      {.matrix = matrix,
                                       .values = values,
                                       .scale = adjusted_rate(rule.adjust, matrix.outputs(), matrix.inputs()),
                                       .steps = rule.steps,
                                       .products = parts.graph.activations,
                                       .workspace = workspace});
                      });
}

}  // namespace tidepool
