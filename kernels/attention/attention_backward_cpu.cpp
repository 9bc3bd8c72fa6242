// One task per head: dk and dv gather over query blocks in ascending order, dq over key blocks.
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/attention/head_view.h"
#include "kernels/attention/softmax_rows.h"
#include "kernels/matmul/sgemm.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

struct Scratch {
  float p[attention_query_rows * attention_key_rows];   // scores, then probabilities
  float ds[attention_query_rows * attention_key_rows];  // their gradients
  float delta[attention_query_rows];                    // dout . out
};

void probabilities(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block,
                   Scratch& scratch) {
  for (u32 row = 0; row < block.rows; ++row) {
    float* p = scratch.p + row * attention_key_rows;
    float* ds = scratch.ds + row * attention_key_rows;
    const u32 visible = block.visible(row);
    const u64 element = head.dropout(block.query + row, block.key);
    if (op.dropout.on()) dropout_row(op.dropout, element, ds, ds, visible);
    softmax_backward_row({.s = p,
                          .dp = ds,
                          .scale = head.scale(),
                          .lse = op.lse[head.lse(block.query + row)],
                          .delta = scratch.delta[row]},
                         visible);
    if (op.dropout.on()) dropout_row(op.dropout, element, p, p, visible);
    std::memset(p + visible, 0, (block.width - visible) * sizeof(float));
    std::memset(ds + visible, 0, (block.width - visible) * sizeof(float));
  }
}

// scores = q k^T and dp = dout v^T
void make_scores(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block,
                 Scratch& scratch) {
  Sgemm g = {.transpose_b = true,
             .m = block.rows,
             .n = block.width,
             .k = op.shape.head_size,
             .a = op.qkv.fp32() + head.q(block.query),
             .lda = head.qkv_stride(),
             .b = op.qkv.fp32() + head.k(block.key),
             .ldb = head.qkv_stride(),
             .c = scratch.p,
             .ldc = attention_key_rows};
  sgemm(g);
  g.a = op.dout.fp32() + head.out(block.query);
  g.lda = head.out_stride();
  g.b = op.qkv.fp32() + head.v(block.key);
  g.c = scratch.ds;
  sgemm(g);
}

// dv += p^T dout, dk += ds^T q, dq (+)= ds k
void gather(const AttentionBackward& op, const HeadView& head, const ScoreBlock& block, Scratch& scratch) {
  Sgemm g = {.transpose_a = true,
             .m = block.width,
             .n = op.shape.head_size,
             .k = block.rows,
             .a = scratch.p,
             .lda = attention_key_rows,
             .b = op.dout.fp32() + head.out(block.query),
             .ldb = head.out_stride(),
             .c = op.dqkv.fp32() + head.v(block.key),
             .ldc = head.qkv_stride(),
             .accumulate = true};
  sgemm(g);
  g.a = scratch.ds;
  g.b = op.qkv.fp32() + head.q(block.query);
  g.ldb = head.qkv_stride();
  g.c = op.dqkv.fp32() + head.k(block.key);
  sgemm(g);
  sgemm({.m = block.rows,
         .n = op.shape.head_size,
         .k = block.width,
         .a = scratch.ds,
         .lda = attention_key_rows,
         .b = op.qkv.fp32() + head.k(block.key),
         .ldb = head.qkv_stride(),
         .c = op.dqkv.fp32() + head.q(block.query),
         .ldc = head.qkv_stride(),
         .accumulate = block.key > 0});
}

void clear_keys_and_values(const AttentionBackward& op, const HeadView& head) {
  for (u32 row = 0; row < op.shape.tokens; ++row) {
    std::memset(op.dqkv.fp32() + head.k(row), 0, op.shape.head_size * sizeof(float));
    std::memset(op.dqkv.fp32() + head.v(row), 0, op.shape.head_size * sizeof(float));
  }
}

void query_block(const AttentionBackward& op, const HeadView& head, u32 query, Scratch& scratch) {
  const u32 end = std::min(query + attention_query_rows, op.shape.tokens);
  for (u32 row = query; row < end; ++row) {
    scratch.delta[row - query] =
        dot_row(op.dout.fp32() + head.out(row), op.out.fp32() + head.out(row), op.shape.head_size);
  }
  for_score_blocks(op.shape.tokens, query, [&](const ScoreBlock& block) {
    make_scores(op, head, block, scratch);
    probabilities(op, head, block, scratch);
    gather(op, head, block, scratch);
  });
}

}  // namespace

void attention_backward_cpu(const AttentionBackward& op, CorePool& pool) {
  CHECK(op.shape.head_size <= attention_head_size_max, op.shape.head_size);
  parallel_for(pool, Priority::normal, op.shape.sequences * op.shape.heads, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<Scratch*>(pool.scratch(worker));
    const HeadView head = {op.shape, task};
    clear_keys_and_values(op, head);
    for (u32 query = 0; query < op.shape.tokens; query += attention_query_rows) {
      query_block(op, head, query, scratch);
    }
  });
}

}  // namespace tidepool
