// The convolution of q, k and v on the CPU. A task has a group of rows and a block of channels.
#include <cstring>

#include "base/check.h"
#include "kernels/delta_rule/delta_channels.h"
#include "kernels/delta_rule/delta_chunk.h"
#include "kernels/delta_rule/delta_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 block = delta_channel_block, group_rows = delta_group_rows;

struct ConvolutionScratch {
  float weight[delta_taps_max][block];  // by tap, the last is of the own token
  float sums[group_rows + delta_taps_max][block];
  float inputs[group_rows][block];
  float dweight[delta_taps_max + 1][block];  // behind the last tap: of the bias
  float bias[block];
};

void check_convolution(const DeltaShape& s) {
  CHECK(s.taps >= 1 && s.taps <= delta_taps_max, s.taps);
  CHECK(s.key_heads > 0 && s.value_heads % s.key_heads == 0, s.key_heads, s.value_heads);
}

u32 groups_of(const DeltaShape& s) { return static_cast<u32>(div_up(s.tokens, u64{group_rows})); }

// A task's part of the arrays. `op`: DeltaConvolution or DeltaConvolutionBackward.
template <class Op>
class ConvolutionTask {
 public:
  ConvolutionTask(const Op& op, u32 task, ConvolutionScratch& scratch)
      : op_(op), s_(op.shape), channels_(delta_channels_of(s_, task % delta_channel_blocks(s_))) {
    const u32 group = task / delta_channel_blocks(s_);
    sequence_ = group / groups_of(s_) * s_.tokens;
    begin_ = group % groups_of(s_) * group_rows;
    end_ = std::min(begin_ + group_rows, s_.tokens);
    float by_channel[delta_taps_max * block];
    const float* from = rows::widened(op.weight.at(u64{channels_.channel} * s_.taps),
                                      u64{channels_.count} * s_.taps, by_channel);
    for (u32 c = 0; c < channels_.count; ++c)
      for (u32 tap = 0; tap < s_.taps; ++tap) scratch.weight[tap][c] = from[c * s_.taps + tap];
    std::memset(scratch.bias, 0, sizeof scratch.bias);
    if (!op.bias) return;
    const float* bias = rows::widened(op.bias.at(channels_.channel), channels_.count, by_channel);
    std::memcpy(scratch.bias, bias, channels_.count * sizeof(float));
  }

  const DeltaChannels& channels() const { return channels_; }
  u32 begin() const { return begin_; }
  u32 end() const { return end_; }
  u32 document(u32 token) const {
    return delta_document(s_, op_.starts != nullptr ? op_.starts + sequence_ : nullptr, token).row;
  }
  u64 projected(u32 token) const { return u64{sequence_ + token} * s_.columns() + channels_.column; }
  u64 channel_row(u32 token) const { return u64{sequence_ + token} * s_.channels() + channels_.channel; }

  // Calls fn(tap, token that it reads) for each tap whose token is in the document of `token`.
  template <class Fn>
  void for_taps(u32 token, Fn fn) const {
    const u32 document = this->document(token);
    for (u32 tap = 0; tap < s_.taps; ++tap) {
      const u32 back = s_.taps - 1 - tap;
      if (token >= document + back) fn(tap, token - back);
    }
  }

  // sum = the convolution at a token.
  void convolve(u32 token, const ConvolutionScratch& scratch, float* sum) const {
    std::memcpy(sum, scratch.bias, channels_.count * sizeof(float));
    for_taps(token, [&](u32 tap, u32 from) {
      delta_rows::multiply_add(sum, op_.projected.fp32() + projected(from), scratch.weight[tap],
                               channels_.count);
    });
  }

 private:
  const Op& op_;
  const DeltaShape& s_;
  DeltaChannels channels_;
  u32 sequence_ = 0, begin_ = 0, end_ = 0;
};

template <class Op, class Fn>
void for_convolution_tasks(const Op& op, CorePool& pool, Fn fn) {
  const u32 tasks = op.shape.sequences * groups_of(op.shape) * delta_channel_blocks(op.shape);
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<ConvolutionScratch*>(pool.scratch(worker));
    fn(ConvolutionTask<Op>(op, task, scratch), task, scratch);
  });
}

// scratch.sums = gradients before the SiLU, of the task's tokens and of those that read them.
u32 gradients_of_sums(const DeltaConvolutionBackward& op,
                      const ConvolutionTask<DeltaConvolutionBackward>& task, ConvolutionScratch& scratch) {
  const u32 end = std::min(task.end() + op.shape.taps - 1, op.shape.tokens);
  for (u32 token = task.begin(); token < end; ++token) {
    float* sum = scratch.sums[token - task.begin()];
    task.convolve(token, scratch, sum);
    delta_rows::silu_backward(sum, op.dy.fp32() + task.channel_row(token), sum, task.channels().count);
  }
  return end;
}

void convolve_back(const DeltaConvolutionBackward& op, const ConvolutionTask<DeltaConvolutionBackward>& task,
                   ConvolutionScratch& scratch) {
  const u32 n = task.channels().count, end = gradients_of_sums(op, task, scratch);
  std::memset(scratch.inputs, 0, sizeof scratch.inputs);
  std::memset(scratch.dweight, 0, sizeof scratch.dweight);
  for (u32 token = task.begin(); token < end; ++token) {
    const float* sum = scratch.sums[token - task.begin()];
    task.for_taps(token, [&](u32 tap, u32 from) {
      if (from >= task.begin() && from < task.end())
        delta_rows::multiply_add(scratch.inputs[from - task.begin()], sum, scratch.weight[tap], n);
      if (op.dweight != nullptr && token < task.end())
        delta_rows::multiply_add(scratch.dweight[tap], sum, op.projected.fp32() + task.projected(from), n);
    });
    if (op.dbias != nullptr && token < task.end()) rows::add(scratch.dweight[op.shape.taps], sum, n);
  }
  for (u32 token = task.begin(); token < task.end(); ++token)
    std::memcpy(op.dprojected.fp32() + task.projected(token), scratch.inputs[token - task.begin()],
                n * sizeof(float));
}

// Taps, and the bias behind them if it has a gradient.
u32 sums_of(const DeltaConvolutionBackward& op) { return op.shape.taps + (op.dbias != nullptr ? 1 : 0); }

// partials: [group of rows, sum, channel].
void sum_convolution_groups(const DeltaConvolutionBackward& op, u32 channel, u32 count,
                            ConvolutionScratch& scratch) {
  const DeltaShape& s = op.shape;
  const u32 groups = s.sequences * groups_of(s);
  for (u32 tap = 0; tap < sums_of(op); ++tap) {
    float* total = scratch.dweight[tap];
    std::memset(total, 0, count * sizeof(float));
    for (u32 group = 0; group < groups; ++group)
      rows::add(total, op.partials + (u64{group} * sums_of(op) + tap) * s.channels() + channel, count);
    for (u32 c = 0; c < count; ++c) {
      float& out = tap < s.taps ? op.dweight[u64{channel + c} * s.taps + tap] : op.dbias[channel + c];
      out = op.accumulate ? out + total[c] : total[c];
    }
  }
}

}  // namespace

void delta_convolution_cpu(const DeltaConvolution& op, CorePool& pool) {
  check_convolution(op.shape);
  for_convolution_tasks(op, pool, [&](const auto& task, u32, ConvolutionScratch& scratch) {
    for (u32 token = task.begin(); token < task.end(); ++token) {
      float* y = op.y.fp32() + task.channel_row(token);
      task.convolve(token, scratch, y);
      delta_rows::silu(y, y, task.channels().count);
    }
  });
}

void delta_convolution_backward_cpu(const DeltaConvolutionBackward& op, CorePool& pool) {
  check_convolution(op.shape);
  const DeltaShape& s = op.shape;
  for_convolution_tasks(op, pool, [&](const auto& task, u32 number, ConvolutionScratch& scratch) {
    convolve_back(op, task, scratch);
    if (op.dweight == nullptr) return;
    const u32 group = number / delta_channel_blocks(s);
    for (u32 tap = 0; tap < sums_of(op); ++tap)
      std::memcpy(op.partials + (u64{group} * sums_of(op) + tap) * s.channels() + task.channels().channel,
                  scratch.dweight[tap], task.channels().count * sizeof(float));
  });
  if (op.dweight == nullptr) return;
  const u32 blocks = static_cast<u32>(div_up(s.channels(), u64{delta_channel_block}));
  parallel_for(pool, Priority::normal, blocks, [&](u32 part, u32 worker) {
    auto& scratch = *reinterpret_cast<ConvolutionScratch*>(pool.scratch(worker));
    const u32 channel = part * delta_channel_block;
    sum_convolution_groups(op, channel, std::min(delta_channel_block, s.channels() - channel), scratch);
  });
}

}  // namespace tidepool
