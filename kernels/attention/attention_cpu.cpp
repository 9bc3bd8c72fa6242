#include "kernels/attention/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/attention/head_view.h"
#include "kernels/attention/softmax_rows.h"
#include "kernels/matmul/right_factor.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"
#include "kernels/soft_cap/soft_cap.h"

namespace tidepool {
namespace {

struct Scratch {
  float scores[query_rows_max * attention_key_rows];
  float out[query_rows_max * attention_head_size_max];
  float values[attention_key_rows * copied_stride(attention_head_size_max)];  // 1.0 MiB
  OnlineSoftmax running[query_rows_max];
};
static_assert(sizeof(Scratch) <= 4 * mib);

void softmax_block(const Attention& op, const HeadView& head, const ScoreBlock& block, Scratch& scratch) {
  const u32 size = op.shape.value_head_size();
  for (u32 row = 0; row < block.rows; ++row) {
    float* s = scratch.scores + row * attention_key_rows;
    const SeenKeys seen = block.seen(row);
    std::memset(s, 0, seen.begin * sizeof(float));
    std::memset(s + seen.end, 0, (block.width - seen.end) * sizeof(float));
    if (seen.count() == 0) continue;
    float* p = s + seen.begin;
    if (op.shape.cap != 0) soft_cap_row(p, op.shape.raw_cap(), seen.count());
    const SeenKeys hidden = block.hidden(row, seen);
    std::fill(s + hidden.begin, s + hidden.end, -std::numeric_limits<float>::infinity());
    const float factor = softmax_row(p, seen.count(), head.shape.scale(), scratch.running[row]);
    const u64 element = head.dropout(block.query + row, block.key + seen.begin);
    if (op.dropout.on()) dropout_row(op.dropout, element, p, p, seen.count());
    if (!block.first) rows::scale(scratch.out + row * size, factor, size);
  }
}

void attend(const Attention& op, const HeadView& head, const ScoreBlock& block, Scratch& scratch) {
  const u32 size = op.shape.value_head_size();
  sgemm({.transpose_b = true,
         .m = block.rows,
         .n = block.width,
         .k = op.shape.head_size,
         .a = op.qkv.fp32() + head.q(block.query),
         .lda = head.qkv_stride(),
         .b = head.keys(op) + head.k(block.key),
         .ldb = head.key_stride(),
         .c = scratch.scores,
         .ldc = attention_key_rows});
  softmax_block(op, head, block, scratch);
  const RightFactor values = right_factor({head.keys(op) + head.v(block.key), head.key_stride()}, block.width,
                                          size, block.rows, scratch.values);
  sgemm({.m = block.rows,
         .n = size,
         .k = block.width,
         .a = scratch.scores,
         .lda = attention_key_rows,
         .b = values.data,
         .ldb = values.stride,
         .c = scratch.out,
         .ldc = size,
         .accumulate = !block.first});
}

// RETURNS: the softmax of no keys. A sink counts as a score that has been seen already.
OnlineSoftmax start_of_rows(const Attention& op, const HeadView& head) {
  if (op.sinks) return {sink_of(op.sinks, head), 1.0f};
  return {-std::numeric_limits<float>::infinity(), 0.0f};
}

void write_out(const Attention& op, const HeadView& head, u32 query, u32 end, Scratch& scratch) {
  const u32 size = op.shape.value_head_size();
  for (u32 row = query; row < end; ++row) {
    const OnlineSoftmax& running = scratch.running[row - query];
    float* from = scratch.out + (row - query) * size;
    rows::scale(from, 1.0f / running.sum, size);
    std::memcpy(op.out.fp32() + head.out(row), from, size * sizeof(float));
    if (op.lse != nullptr) op.lse[head.lse(row)] = running.maximum + std::log(running.sum);
  }
}

}  // namespace

void attention_cpu(const Attention& op, CorePool& pool) {
  check_attention_shape(op.shape);
  const u32 heads = op.shape.sequences * op.shape.heads;
  const u32 rows = query_rows(op);
  const u32 query_blocks = static_cast<u32>(div_up(op.shape.tokens, rows));
  parallel_for(pool, Priority::normal, heads * query_blocks, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<Scratch*>(pool.scratch(worker));
    const HeadView head(op, task / query_blocks);
    // Longest first, so that short tasks even out the end.
    const u32 query = head.first + (query_blocks - 1 - task % query_blocks) * rows,
              end = std::min(query + rows, head.end());
    for (OnlineSoftmax& r : scratch.running) r = start_of_rows(op, head);
    for_score_blocks(query, end, visible_keys(op, head),
                     [&](const ScoreBlock& block) { attend(op, head, block, scratch); });
    write_out(op, head, query, end, scratch);
  });
}

}  // namespace tidepool
