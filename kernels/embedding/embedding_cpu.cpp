#include "kernels/embedding/embedding.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 task_rows = 64;
constexpr u32 slice_columns = 64;  // backward: a task owns columns, so tasks never share an element

void embed_row(const Embedding& op, u32 row, float* scratch) {
  const u64 token = static_cast<u32>(op.tokens[row]);
  const u64 position = row % op.tokens_per_sequence;
  const float* a = rows::widened(op.wte.at(token * op.columns), op.columns, scratch);
  float* out = op.out.fp32() + u64{row} * op.columns;
  std::copy_n(a, op.columns, out);
  if (op.scale != 1) rows::scale(out, op.scale, op.columns);
  if (op.wpe)
    rows::add(out, rows::widened(op.wpe.at(position * op.columns), op.columns, scratch), op.columns);
  if (op.noise.on()) add_noise_row(op.noise, u64{row} * op.columns, out, op.columns);
  if (op.dropout.on()) dropout_row(op.dropout, u64{row} * op.columns, out, out, op.columns);
}

// Sorts (token, row) ascending, on the caller's thread only: 16 Ki rows take about a millisecond.
void sort_rows(const EmbeddingBackward& op) {
  const u32 rows = op.sequences * op.tokens_per_sequence;
  for (u32 row = 0; row < rows; ++row) {
    const u32 token = static_cast<u32>(op.tokens[row]);
    CHECK(token < op.vocabulary, token, op.vocabulary, row);
    op.order[row] = u64{token} << 32 | row;
  }
  std::sort(op.order, op.order + rows);
}

struct Slice {
  u32 begin = 0, columns = 0;
  float* sum = nullptr;  // [columns]
};

void add_tokens(const EmbeddingBackward& op, const Slice& s) {
  const u32 rows = op.sequences * op.tokens_per_sequence;
  for (u32 i = 0; i < rows;) {
    const u64 token = op.order[i] >> 32;
    std::fill_n(s.sum, s.columns, 0.0f);
    for (; i < rows && op.order[i] >> 32 == token; ++i) {
      rows::add(s.sum, op.dout.fp32() + (op.order[i] & 0xffff'ffff) * op.columns + s.begin, s.columns);
    }
    if (op.scale != 1) rows::scale(s.sum, op.scale, s.columns);
    rows::add(op.dwte + token * op.columns + s.begin, s.sum, s.columns);
  }
}

void add_positions(const EmbeddingBackward& op, const Slice& s) {
  for (u32 position = 0; position < op.tokens_per_sequence; ++position) {
    std::fill_n(s.sum, s.columns, 0.0f);
    for (u32 sequence = 0; sequence < op.sequences; ++sequence) {
      const u64 row = u64{sequence} * op.tokens_per_sequence + position;
      rows::add(s.sum, op.dout.fp32() + row * op.columns + s.begin, s.columns);
    }
    rows::add(op.dwpe + u64{position} * op.columns + s.begin, s.sum, s.columns);
  }
}

void clear(float* grad, u32 row_count, u32 columns, const Slice& s) {
  for (u32 row = 0; row < row_count; ++row) std::fill_n(grad + u64{row} * columns + s.begin, s.columns, 0.0f);
}

}  // namespace

void embedding_cpu(const Embedding& op, CorePool& pool) {
  const u32 rows = op.sequences * op.tokens_per_sequence;
  parallel_for(pool, Priority::normal, static_cast<u32>(div_up(rows, task_rows)), [&](u32 task, u32 worker) {
    auto* scratch = reinterpret_cast<float*>(pool.scratch(worker));
    const u32 end = std::min((task + 1) * task_rows, rows);
    for (u32 row = task * task_rows; row < end; ++row) embed_row(op, row, scratch);
  });
}

void embedding_backward_cpu(const EmbeddingBackward& op, CorePool& pool) {
  sort_rows(op);
  const u32 slices = static_cast<u32>(div_up(op.columns, slice_columns));
  parallel_for(pool, Priority::normal, slices, [&](u32 task, u32 worker) {
    const u32 begin = task * slice_columns;
    const Slice s = {begin, std::min(slice_columns, op.columns - begin),
                     reinterpret_cast<float*>(pool.scratch(worker))};
    if (!op.accumulate) {
      clear(op.dwte, op.vocabulary, op.columns, s);
      if (op.dwpe != nullptr) clear(op.dwpe, op.positions, op.columns, s);
    }
    add_tokens(op, s);
    if (op.dwpe != nullptr) add_positions(op, s);
  });
}

}  // namespace tidepool
