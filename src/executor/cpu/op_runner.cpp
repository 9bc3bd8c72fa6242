#include "executor/cpu/op_runner.h"

#include <algorithm>
#include <cstring>

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
  Values take_values(Kind kind) { return {take(kind).data(), parts_.graph.activations}; }
  std::span<std::byte> take_if(Kind kind) {
    return at_ < operands_.size() && this->kind() == kind ? take(kind) : std::span<std::byte>();
  }

 private:
  Kind kind() const { return parts_.plan.chunk(operands_[at_].first).kind; }

  const OpRunnerParts& parts_;
  std::span<const Operand> operands_;
  u32 at_ = 0;
};

OpRunner::OpRunner(const OpRunnerParts& parts)
    : parts_(parts),
      origin_(std::chrono::steady_clock::now()),
      numbers_(parts.plan, parts.graph, parts.source),
      hash_scratch_(1 + parts.plan.devices) {
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
    case OpKind::norm: numbers_.finish(issue.step); break;
    case OpKind::update: update(issue); break;
    case OpKind::all_gather: all_gather(issue); break;
    case OpKind::reduce_scatter: reduce_scatter(issue); break;
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
  const std::span<std::byte> to = parts_.memory.at(operands[1].frame);
  copy_bytes(parts_.memory.at(operands[0].frame), to);
  const LinkKind link = issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
  copied_[static_cast<u32>(link)].fetch_add(to.size(), std::memory_order_relaxed);
}

void OpRunner::copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  CHECK(from.size() == to.size(), from.size(), to.size());
  const u32 pieces = static_cast<u32>(div_up(from.size(), copy_piece_bytes));
  parallel_for(parts_.pool, Priority::high, pieces, [&](u32 piece, u32) {
    const u64 begin = piece * copy_piece_bytes;
    std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, from.size() - begin));
  });
}

// ---- between devices

// Each device gets, cut by cut, what their owners have.
void OpRunner::all_gather(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  u64 moved = 0;
  for (const Operand& to : operands) {
    if (to.access == Access::read) continue;
    for (const Operand& from : operands) {
      if (from.access != Access::read || index(from.first) < index(to.first) ||
          index(from.first) >= index(to.first) + to.count)
        continue;
      u64 offset = 0;
      for (u32 id = index(to.first); id < index(from.first); ++id) offset += parts_.plan.chunks[id].bytes.value;
      const u64 bytes = from.frame.bytes.value;
      copy_bytes(parts_.memory.at(from.frame), parts_.memory.at(to.frame).subspan(offset, bytes));
      if (from.frame.device != to.frame.device) moved += bytes;
    }
  }
  collected_.fetch_add(moved, std::memory_order_relaxed);
}

// Each owner's cuts are summed over the devices in their order.
void OpRunner::reduce_scatter(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const u32 devices = parts_.plan.devices;
  std::array<const float*, devices_max> from{};
  for (const Operand& to : operands.subspan(devices)) {
    const Chunk& first = parts_.plan.chunk(to.first);
    CHECK(to.access == Access::write && first.kind == Kind::grad_accum, index(to.first));
    for (u32 d = 0; d < devices; ++d)
      from[d] = floats(parts_.memory.at(operands[d].frame)) + first.element_begin;
    const u64 bytes = to.frame.bytes.value;
    sum_in_order(std::span(from).first(devices), floats(parts_.memory.at(to.frame)), bytes / sizeof(float), parts_.pool);
    collected_.fetch_add((devices - 1) * bytes, std::memory_order_relaxed);
  }
}

// ---- compute

void OpRunner::forward(const Issue& issue) {
  const Op& op = issue.get();
  const Block& block = parts_.graph.blocks[op.block];
  const bool embedding = block.kind == BlockKind::embedding, head = block.kind == BlockKind::gpt2_head;
  const bool evaluation = issue.segment->kind == SegmentKind::evaluation;
  Operands operands(parts_, issue);
  BlockForward f;
  double evaluation_loss = 0;
  if (embedding || head) {
    f.tokens = reinterpret_cast<const i32*>(operands.take(Kind::batch).data());
    f.targets = f.tokens + parts_.graph.batch.rows();
  }
  std::array<const std::byte*, block_windows_max> windows{};
  CHECK(block.windows.size() <= windows.size(), block.windows.size());
  for (u32 i = 0; i < block.windows.size(); ++i) windows[i] = operands.take(Kind::param).data();
  f.windows = std::span(windows).first(block.windows.size());
  if (!embedding) f.input = operands.take_values(Kind::activation);
  if (!head) f.output = operands.take_values(Kind::activation);
  const std::span<std::byte> kept = operands.take_if(Kind::kept);
  f.kept = kept.empty() ? nullptr : kept.data();
  f.workspace = operands.take(Kind::workspace).data();
  if (head) {
    CHECK(evaluation, issue.sequence);  // in training the head's backward does its forward
    f.loss_sum = &evaluation_loss;
    if (!logits_.logits.empty() && logits_.micro_batch == op.micro_batch) {
      f.logits = logits_.logits.data();
      f.logits_row = logits_.row;
    }
  }
  block_forward({.kernels = *parts_.kernels[op.lane.device],
                 .graph = parts_.graph,
                 .block = op.block,
                 .seed = parts_.seed,
                 .step = issue.step,
                 .micro_batch = op.micro_batch,
                 .training = !evaluation},
                f);
  if (head)
    numbers_.add_evaluation(issue.step * (parts_.plan.micro_batches / parts_.plan.sweeps) + op.micro_batch,
                            evaluation_loss, count_targets(f.targets));
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
    b.input = operands.take_values(Kind::activation);
  }
  const std::span<std::byte> kept = operands.take_if(Kind::kept);
  b.kept = kept.empty() ? nullptr : kept.data();
  b.grad = operands.take_values(Kind::activation_grad);
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
    const u64 tokens = parts_.source.settings(issue.step).target_tokens;
    b.loss_sum = numbers_.begin_loss(issue.step, op.micro_batch);
    b.inverse_tokens = 1.0 / static_cast<double>(std::max<u64>(tokens, 1));
  }
  block_backward({.kernels = *parts_.kernels[op.lane.device],
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

// A window's, or a device's part of it.
void OpRunner::gradient(const Issue& issue) {
  const u32 w = issue.get().window;
  std::array<const float*, block_windows_max> accumulators{};
  u32 uses = 0;
  u64 begin = 0, elements = 0;
  std::byte* grad = nullptr;
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    const Kind kind = parts_.plan.chunk(o.first).kind;
    if (kind == Kind::grad_accum) {
      CHECK(uses < accumulators.size(), uses);
      accumulators[uses++] = floats(parts_.memory.at(o.frame));
      begin = parts_.plan.chunk(o.first).element_begin;
      elements = o.frame.bytes.value / sizeof(float);
    } else if (kind == Kind::grad) {
      grad = parts_.memory.at(o.frame).data();
    }
  }
  CHECK(uses > 0, w);
  // In fp32 the first accumulator becomes the gradient.
  if (!grad) grad = reinterpret_cast<std::byte*>(const_cast<float*>(accumulators[0]));
  finish_gradient(std::span(accumulators).first(uses), grad, parts_.plan.precision, elements, parts_.pool);
  numbers_.add_gradient(w, begin, elements, grad, parts_.pool);
}

// ---- updates

void OpRunner::update(const Issue& issue) {
  const Op& op = issue.get();
  const bool split = parts_.plan.precision == Precision::bf16;
  Operands operands(parts_, issue);
  AdamWChunk c;
  c.grad = operands.take(split ? Kind::grad : Kind::grad_accum).data();
  c.segments = decay_[op.window][op.cut];

  HashScratch& scratch = hash_scratch_[op.lane.kind == LaneKind::host ? 0 : 1 + op.lane.device];
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
  const StepResult step = numbers_.result(issue.step);
  AdamWScalars scalars = adamw_scalars(settings.adamw, issue.step, step.grad_norm, settings.max_grad_norm);
  scalars.skip = step.skipped;
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

}  // namespace tidepool
