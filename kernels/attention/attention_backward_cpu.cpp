// Attention backward on the CPU, one task per kv head: dk and dv are summed over its query heads and their
// query blocks in ascending order, dq over key blocks. Sinks have a pass of their own, one task per head.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/head_view.h"
#include "kernels/attention/softmax_rows.h"
#include "kernels/matmul/right_factor.h"
#include "kernels/matmul/sgemm.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

struct BackwardScratch {
  float p[query_rows_max * attention_key_rows];   // scores, then probabilities
  float ds[query_rows_max * attention_key_rows];  // gradients of scores
  float delta[query_rows_max];                    // dout . out
  // Copies of right factors: of a query block, and of a key block.
  float queries[query_rows_max * copied_stride(attention_head_size_max)];
  float douts[query_rows_max * copied_stride(attention_head_size_max)];
  float keys[attention_key_rows * copied_stride(attention_head_size_max)];
};
static_assert(sizeof(BackwardScratch) <= 4 * mib);

void probabilities(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block,
                   BackwardScratch& scratch) {
  for (u32 row = 0; row < block.rows; ++row) {
    float* p = scratch.p + row * attention_key_rows;
    float* ds = scratch.ds + row * attention_key_rows;
    const SeenKeys seen = block.seen(row);
    const auto clear = [](float* from, u32 n) { std::memset(from, 0, n * sizeof(float)); };
    clear(p, seen.begin), clear(p + seen.end, block.width - seen.end);
    clear(ds, seen.begin), clear(ds + seen.end, block.width - seen.end);
    p += seen.begin, ds += seen.begin;
    const u64 element = head.dropout(block.query + row, block.key + seen.begin);
    if (op.dropout.on()) dropout_row(op.dropout, element, ds, ds, seen.count());
    softmax_backward_row({.s = p,
                          .dp = ds,
                          .scale = head.shape.scale(),
                          .lse = op.lse[head.lse(block.query + row)],
                          .delta = scratch.delta[row],
                          .raw_cap = op.shape.cap == 0 ? 0 : op.shape.raw_cap()},
                         seen.count());
    if (op.dropout.on()) dropout_row(op.dropout, element, p, p, seen.count());
    const SeenKeys hidden = block.hidden(row, seen);
    clear(p - seen.begin + hidden.begin, hidden.count());
    clear(ds - seen.begin + hidden.begin, hidden.count());
  }
}

// scores = q k^T and dp = dout v^T
void make_scores(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block,
                 BackwardScratch& scratch) {
  Sgemm g = {.transpose_b = true,
             .m = block.rows,
             .n = block.width,
             .k = op.shape.head_size,
             .a = op.qkv.fp32() + head.q(block.query),
             .lda = head.qkv_stride(),
             .b = head.keys(op) + head.k(block.key),
             .ldb = head.key_stride(),
             .c = scratch.p,
             .ldc = attention_key_rows};
  sgemm(g);
  g.k = op.shape.value_head_size();
  g.a = op.dout.fp32() + head.out(block.query);
  g.lda = head.out_stride();
  g.b = head.keys(op) + head.v(block.key);
  g.c = scratch.ds;
  sgemm(g);
}

// QueryFactors are the factors that the products of all key blocks read of a query block.
struct QueryFactors {
  RightFactor queries, douts;
};
QueryFactors query_factors(const AttentionBackward& op, const HeadView& head, u32 query, u32 rows,
                           BackwardScratch& scratch) {
  return {.queries = right_factor({op.qkv.fp32() + head.q(query), head.qkv_stride()}, rows,
                                  op.shape.head_size, attention_key_rows, scratch.queries),
          .douts = right_factor({op.dout.fp32() + head.out(query), head.out_stride()}, rows,
                                op.shape.value_head_size(), attention_key_rows, scratch.douts)};
}

// dv += p^T dout, dk += ds^T q, dq (+)= ds k
void gather(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block,
            const QueryFactors& factors, BackwardScratch& scratch) {
  const u32 size = op.shape.head_size;
  const RightFactor keys = right_factor({head.keys(op) + head.k(block.key), head.key_stride()}, block.width,
                                        size, block.rows, scratch.keys);
  Sgemm g = {.transpose_a = true,
             .m = block.width,
             .n = op.shape.value_head_size(),
             .k = block.rows,
             .a = scratch.p,
             .lda = attention_key_rows,
             .b = factors.douts.data,
             .ldb = factors.douts.stride,
             .c = head.key_gradients(op) + head.v(block.key),
             .ldc = head.key_stride(),
             .accumulate = true};
  sgemm(g);
  g.n = size;
  g.a = scratch.ds;
  g.b = factors.queries.data;
  g.ldb = factors.queries.stride;
  g.c = head.key_gradients(op) + head.k(block.key);
  sgemm(g);
  sgemm({.m = block.rows,
         .n = size,
         .k = block.width,
         .a = scratch.ds,
         .lda = attention_key_rows,
         .b = keys.data,
         .ldb = keys.stride,
         .c = op.dqkv.fp32() + head.q(block.query),
         .ldc = head.qkv_stride(),
         .accumulate = !block.first});
}

void clear_keys_and_values(const AttentionBackward& op, const HeadView& head) {
  for (u32 row = head.first; row < head.end(); ++row) {
    std::memset(op.dqkv.fp32() + head.k(row), 0, op.shape.head_size * sizeof(float));
    std::memset(op.dqkv.fp32() + head.v(row), 0, op.shape.value_head_size() * sizeof(float));
  }
}

// dout . out
float delta_of(const AttentionBackward& op, const HeadView& head, u32 row) {
  return dot_row(op.dout.fp32() + head.out(row), op.out.fp32() + head.out(row), op.shape.value_head_size());
}

void query_block(const AttentionBackward& op, const HeadView& head, u32 query, BackwardScratch& scratch) {
  const u32 end = std::min(query + query_rows(op), head.end());
  for (u32 row = query; row < end; ++row) scratch.delta[row - query] = delta_of(op, head, row);
  const QueryFactors factors = query_factors(op, head, query, end - query, scratch);
  for_score_blocks(query, end, visible_keys(op, head), [&](const ScoreBlock& block) {
    make_scores(op, head, block, scratch);
    probabilities(op, head, block, scratch);
    gather(op, head, block, factors, scratch);
  });
}

// Sums rows in ascending order, in double. Computes delta again: the deltas of a head are spread over the
// tasks of all sequences, and keeping them would take memory of B NH T floats to save two reads of B T H.
void sink_gradient(const AttentionBackward& op, u32 head_of_sequence) {
  double sum = 0;
  for (u32 sequence = 0; sequence < op.shape.sequences; ++sequence) {
    const HeadView head(op, sequence * op.shape.heads + head_of_sequence);
    const float sink = sink_of(op.sinks, head);
    for (u32 row = head.first; row < head.end(); ++row) {
      sum -= double(std::exp(sink - op.lse[head.lse(row)])) * delta_of(op, head, row);
    }
  }
  const auto total = static_cast<float>(sum);
  rows::store(op.dsinks + head_of_sequence, &total, 1, op.accumulate);
}

}  // namespace

void attention_backward_cpu(const AttentionBackward& op, CorePool& pool) {
  check_attention_shape(op.shape);
  if (op.dsinks != nullptr) {
    CHECK(bool(op.sinks));
    parallel_for(pool, Priority::normal, op.shape.heads, [&](u32 head, u32) { sink_gradient(op, head); });
  }
  const u32 group = op.shape.group();
  parallel_for(pool, Priority::normal, op.shape.sequences * op.shape.key_heads(), [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<BackwardScratch*>(pool.scratch(worker));
    if (op.dpast == nullptr) clear_keys_and_values(op, HeadView(op, task * group));
    for (u32 number = task * group; number < (task + 1) * group; ++number) {
      const HeadView head(op, number);
      for (u32 query = head.first; query < head.end(); query += query_rows(op))
        query_block(op, head, query, scratch);
    }
  });
}

}  // namespace tidepool
