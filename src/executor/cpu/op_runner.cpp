#include "executor/cpu/op_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/gradient.h"
#include "model/blocks.h"
#include "tidepool/ignored_target.h"

namespace tidepool {
namespace {

// Small enough that a copy shares the cores fairly with the op beside it, large enough that handing
// out a piece (about 1 us) does not show: 1 MiB at 10 GB/s is 100 us.
constexpr u64 copy_piece_bytes = 1 * mib;

// Windows that one block reads: embedding {wte, wpe}, layer {h.i}, head {ln_f, wte}.
constexpr u32 block_windows_max = 4;

float* floats(std::span<std::byte> bytes) { return reinterpret_cast<float*>(bytes.data()); }

}  // namespace

// Operands in the order that plan.h documents.
class OpRunner::Operands {
 public:
  Operands(const OpRunnerParts& parts, const Issue& issue)
      : parts_(parts), operands_(issue.segment->operands_of(issue.get())) {}

  const Operand& next(Kind kind) {
    CHECK(at_ < operands_.size() && this->kind() == kind, at_, operands_.size(), name(kind));
    return operands_[at_++];
  }
  std::span<std::byte> take(Kind kind) { return parts_.memory.at(next(kind).frame); }
  std::span<std::byte> take_if(Kind kind) {
    return at_ < operands_.size() && this->kind() == kind ? take(kind) : std::span<std::byte>();
  }

 private:
  Kind kind() const { return parts_.plan.chunk(operands_[at_].first).kind; }

  const OpRunnerParts& parts_;
  std::span<const Operand> operands_;
  u32 at_ = 0;
};

OpRunner::OpRunner(const OpRunnerParts& parts) : parts_(parts), origin_(std::chrono::steady_clock::now()) {
  index_partials();
  index_decay();
  for (HashScratch& scratch : hash_scratch_) {
    for (std::vector<u64>& hashes : scratch.hashes) hashes.resize(parts.ledger.blocks_max());
  }
}

Nanos OpRunner::now() const {
  return Nanos{static_cast<u64>((std::chrono::steady_clock::now() - origin_).count())};
}

Result<void> OpRunner::run(const Issue& issue) {
  switch (issue.get().kind) {
    case OpKind::load_batch: return load_batch(issue);
    case OpKind::copy: copy(issue); break;
    case OpKind::forward: forward(issue); break;
    case OpKind::backward: backward(issue); break;
    case OpKind::gradient: gradient(issue); break;
    case OpKind::norm: norm(issue); break;
    case OpKind::update: update(issue); break;
    case OpKind::read:
    case OpKind::write: CHECK(false, issue.sequence); break;  // the disk lanes' own
  }
  return {};
}

// ---- data

Result<void> OpRunner::load_batch(const Issue& issue) {
  Operands operands(parts_, issue);
  const std::span<std::byte> batch = operands.take(Kind::batch);
  const u64 rows = parts_.graph.batch.rows();
  CHECK(batch.size() >= 2 * rows * sizeof(i32), batch.size(), rows);
  i32* tokens = reinterpret_cast<i32*>(batch.data());
  return parts_.source.load_batch({.step = issue.step,
                                   .micro_batch = issue.get().micro_batch,
                                   .evaluation = issue.segment->kind == SegmentKind::evaluation},
                                  {tokens, rows}, {tokens + rows, rows});
}

void OpRunner::copy(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<const std::byte> from = parts_.memory.at(operands[0].frame);
  const std::span<std::byte> to = parts_.memory.at(operands[1].frame);
  CHECK(from.size() == to.size(), from.size(), to.size());
  const u32 pieces = static_cast<u32>(div_up(from.size(), copy_piece_bytes));
  parallel_for(parts_.pool, Priority::high, pieces, [&](u32 piece, u32) {
    const u64 begin = piece * copy_piece_bytes;
    std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, from.size() - begin));
  });
  const LinkKind link = issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
  copied_[static_cast<u32>(link)].fetch_add(to.size(), std::memory_order_relaxed);
}

// ---- compute

void OpRunner::forward(const Issue& issue) {
  const Op& op = issue.get();
  const Block& block = parts_.graph.blocks[op.block];
  const bool embedding = block.kind == BlockKind::embedding, head = block.kind == BlockKind::gpt2_head;
  const bool evaluation = issue.segment->kind == SegmentKind::evaluation;
  Operands operands(parts_, issue);
  BlockForward f;
  if (embedding || head) {
    f.tokens = reinterpret_cast<const i32*>(operands.take(Kind::batch).data());
    f.targets = f.tokens + parts_.graph.batch.rows();
  }
  std::array<const std::byte*, block_windows_max> windows{};
  CHECK(block.windows.size() <= windows.size(), block.windows.size());
  for (u32 i = 0; i < block.windows.size(); ++i) windows[i] = operands.take(Kind::param).data();
  f.windows = std::span(windows).first(block.windows.size());
  if (!embedding) f.input = floats(operands.take(Kind::activation));
  if (!head) f.output = floats(operands.take(Kind::activation));
  const std::span<std::byte> kept = operands.take_if(Kind::kept);
  f.kept = kept.empty() ? nullptr : kept.data();
  f.workspace = operands.take(Kind::workspace).data();
  if (head) {
    CHECK(evaluation, issue.sequence);  // in training the head's backward does its forward
    f.loss_sum = &eval_.loss_sum;
    eval_.target_tokens += count_targets(f.targets);
    if (!logits_.logits.empty() && logits_.micro_batch == op.micro_batch) {
      f.logits = logits_.logits.data();
      f.logits_row = logits_.row;
    }
  }
  block_forward({.kernels = parts_.kernels,
                 .graph = parts_.graph,
                 .block = op.block,
                 .seed = parts_.seed,
                 .step = issue.step,
                 .micro_batch = op.micro_batch,
                 .training = !evaluation},
                f);
}

void OpRunner::backward(const Issue& issue) {
  const Op& op = issue.get();
  const Block& block = parts_.graph.blocks[op.block];
  const bool embedding = block.kind == BlockKind::embedding, head = block.kind == BlockKind::gpt2_head;
  const u32 count = static_cast<u32>(block.windows.size());
  CHECK(count <= block_windows_max, count);
  Operands operands(parts_, issue);
  BlockBackward b;
  if (embedding || head) {
    b.tokens = reinterpret_cast<const i32*>(operands.take(Kind::batch).data());
    b.targets = b.tokens + parts_.graph.batch.rows();
  }
  std::array<const std::byte*, block_windows_max> windows{};
  if (!embedding) {  // its gradient needs no parameters
    for (u32 i = 0; i < count; ++i) windows[i] = operands.take(Kind::param).data();
    b.windows = std::span(windows).first(count);
    b.input = floats(operands.take(Kind::activation));
  }
  const std::span<std::byte> kept = operands.take_if(Kind::kept);
  b.kept = kept.empty() ? nullptr : kept.data();
  b.grad = floats(operands.take(Kind::activation_grad));
  std::array<float*, block_windows_max> accumulators{};
  u32 overwritten = 0;
  for (u32 i = 0; i < count; ++i) {
    const Operand& o = operands.next(Kind::grad_accum);
    accumulators[i] = floats(parts_.memory.at(o.frame));
    overwritten += o.access == Access::write;
  }
  CHECK(overwritten == 0 || overwritten == count, overwritten, count);
  b.grad_accum = std::span(accumulators).first(count);
  b.accumulate = overwritten == 0;
  b.workspace = operands.take(Kind::workspace).data();
  if (head) {
    StepScalars& step = begin_step(issue.step);
    b.loss_sum = &step.loss_sum;
    b.inverse_tokens = 1.0 / static_cast<double>(std::max<u64>(step.target_tokens, 1));
  }
  block_backward({.kernels = parts_.kernels,
                  .graph = parts_.graph,
                  .block = op.block,
                  .seed = parts_.seed,
                  .step = issue.step,
                  .micro_batch = op.micro_batch},
                 b);
}

u64 OpRunner::count_targets(const i32* targets) const {
  const u64 rows = parts_.graph.batch.rows();
  return rows - static_cast<u64>(std::count(targets, targets + rows, ignored_target));
}

// ---- gradients and their norm

void OpRunner::gradient(const Issue& issue) {
  const u32 w = issue.get().window;
  const Window& window = parts_.graph.windows[w];
  std::array<const float*, block_windows_max> accumulators{};
  u32 uses = 0;
  std::byte* grad = nullptr;
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    const Kind kind = parts_.plan.chunk(o.first).kind;
    if (kind == Kind::grad_accum) {
      CHECK(uses < accumulators.size(), uses);
      accumulators[uses++] = floats(parts_.memory.at(o.frame));
    } else if (kind == Kind::grad) {
      grad = parts_.memory.at(o.frame).data();
    }
  }
  CHECK(uses > 0, w);
  // In fp32 the first accumulator becomes the gradient.
  if (!grad) grad = reinterpret_cast<std::byte*>(const_cast<float*>(accumulators[0]));
  finish_gradient(std::span(accumulators).first(uses), grad, parts_.plan.precision, window.elements, parts_.pool);
  const u64 bytes = element_bytes(Kind::grad, parts_.plan.precision);
  for (u32 t = 0; t < window.tensors.size(); ++t) {
    const Tensor& tensor = window.tensors[t];
    const TensorPartials& at = tensor_partials_[w][t];
    norm_partials(grad + tensor.window_offset * bytes, parts_.plan.precision, tensor.elements,
                  std::span(partials_).subspan(at.begin, at.count), parts_.pool);
  }
}

void OpRunner::norm(const Issue& issue) {
  StepScalars& step = begin_step(issue.step);
  double sum = 0;
  for (const double partial : partials_) sum += partial;  // tensor order, whatever order they were made in
  step.grad_norm = std::sqrt(sum);
  step.skip = !std::isfinite(step.grad_norm) || !std::isfinite(step.loss_sum);
}

void OpRunner::index_partials() {
  u64 next = 0;
  for (const Window& window : parts_.graph.windows) {
    std::vector<TensorPartials>& tensors = tensor_partials_.emplace_back();
    for (const Tensor& tensor : window.tensors) {
      tensors.push_back({next, div_up(tensor.elements, norm_granule_elements)});
      next += tensors.back().count;
    }
  }
  partials_.resize(next);
}

// ---- updates

void OpRunner::update(const Issue& issue) {
  const Op& op = issue.get();
  const bool split = parts_.plan.precision == Precision::bf16;
  Operands operands(parts_, issue);
  AdamWChunk c;
  c.grad = operands.take(split ? Kind::grad : Kind::grad_accum).data();
  c.segments = decay_[op.window][op.cut];

  HashScratch& scratch = hash_scratch_[op.lane.kind == LaneKind::host ? 0 : 1];
  std::array<ChunkId, 4> hashed{};
  u32 kinds = 0;
  // Chunks that rest on disk are written next: their checksums are made while tiles are in cache.
  const auto state = [&](Kind kind, std::span<u64>& hashes, u64& seed) {
    const Operand& o = operands.next(kind);
    CHECK(o.count == 1, index(o.first), o.count);
    c.elements = parts_.plan.chunk(o.first).elements;
    if (parts_.plan.homes[index(o.first)].tier == Tier::disk) {
      hashes = std::span(scratch.hashes[kinds]).first(parts_.ledger.blocks(o.first));
      seed = parts_.ledger.next_seed(o.first);
      hashed[kinds++] = o.first;
    }
    return parts_.memory.at(o.frame);
  };
  c.param = state(Kind::param, c.param_hashes, c.param_seed).data();
  if (split) c.master_low = state(Kind::master_low, c.low_hashes, c.low_seed).data();
  c.momentum = floats(state(Kind::momentum, c.momentum_hashes, c.momentum_seed));
  c.variance = floats(state(Kind::variance, c.variance_hashes, c.variance_seed));

  adamw(c, parts_.plan.precision, scalars_of(issue), parts_.pool);
  for (u32 i = 0; i < kinds; ++i) {
    const ChunkId id = hashed[i];
    parts_.ledger.prepare(id, combine_checksums(std::span(scratch.hashes[i]).first(parts_.ledger.blocks(id)),
                                                parts_.ledger.next_seed(id)));
  }
}

AdamWScalars OpRunner::scalars_of(const Issue& issue) const {
  const StepSettings settings = parts_.source.settings(issue.step);
  if (!parts_.plan.clipping) return adamw_scalars(settings.adamw, issue.step, 0, 0);
  const StepScalars& step = steps_[issue.step % steps_kept];
  CHECK(step.step == issue.step, step.step, issue.step);
  AdamWScalars scalars = adamw_scalars(settings.adamw, issue.step, step.grad_norm, settings.max_grad_norm);
  scalars.skip = step.skip;
  return scalars;
}

// Cuts a window's tensors into runs of equal decay, per chunk set. Padding decays: zero stays zero.
void OpRunner::index_decay() {
  decay_.resize(parts_.graph.windows.size());
  for (const Chunk& chunk : parts_.plan.chunks) {
    if (chunk.kind != Kind::param) continue;
    const Window& window = parts_.graph.windows[chunk.window];
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
    CHECK(!runs.empty() && runs.front().begin == 0 && runs.back().end == chunk.elements, chunk.window, chunk.cut);
    auto& cuts = decay_[chunk.window];
    if (cuts.size() <= chunk.cut) cuts.resize(chunk.cut + 1);
    cuts[chunk.cut] = std::move(runs);
  }
}

// ---- scalars of a step

// Compute lane only. The slot's older step has long been read: updates trail by one step.
OpRunner::StepScalars& OpRunner::begin_step(u64 step) {
  StepScalars& slot = steps_[step % steps_kept];
  if (slot.step != step) {
    slot = {.step = step, .target_tokens = parts_.source.settings(step).target_tokens};
  }
  return slot;
}

StepResult OpRunner::result(u64 step) const {
  const StepScalars& slot = steps_[step % steps_kept];
  CHECK(slot.step == step, slot.step, step);
  return {.loss = slot.loss_sum / static_cast<double>(std::max<u64>(slot.target_tokens, 1)),
          .grad_norm = slot.grad_norm,
          .target_tokens = slot.target_tokens,
          .skipped = slot.skip};
}

EvalResult OpRunner::take_eval() { return std::exchange(eval_, {}); }

}  // namespace tidepool
