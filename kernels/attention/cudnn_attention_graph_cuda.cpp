#include "kernels/attention/cudnn_attention_graph_cuda.h"

namespace tidepool::cuda {
namespace {

using cudnn::DataType;
using cudnn::Dimensions;
using cudnn::Graph;
using cudnn::PointwiseMode;
using cudnn::ReductionMode;
using cudnn::Tensor;

struct Builder {
  Graph graph;
  const AttentionShape& shape;
  DataType half;
  i64 b, h, hk, t, d;  // sizes of the slice

  Builder(const cudnn::Library& library, const AttentionShape& s, const AttentionSlice& slice, Precision p)
      : graph(library),
        shape(s),
        half(p == Precision::bf16 ? DataType::bf16 : DataType::fp16),
        b(slice.sequences),
        h(i64{slice.kv_heads} * s.group()),
        hk(slice.kv_heads),
        t(s.tokens),
        d(s.head_size) {}

  Dimensions scores() const { return {b, h, t, t}; }
  Dimensions rows() const { return {b, h, t, 1}; }

  // [B, T, columns]; heads are strips of columns.
  Tensor strips(AttentionUid uid, i64 heads, i64 columns) {
    return graph.array(
        {.dimensions = {b, heads, t, d}, .strides = {t * columns, d, columns, 1}, .type = half}, i64(uid));
  }
  Tensor transposed_strips(AttentionUid uid, i64 heads, i64 columns) {
    return graph.array(
        {.dimensions = {b, heads, d, t}, .strides = {t * columns, d, 1, columns}, .type = half}, i64(uid));
  }
  // [B, NH, T] of the whole batch.
  Tensor numbers_of_rows(AttentionUid uid, i64 heads_of_all) {
    return graph.array(
        {.dimensions = rows(), .strides = {heads_of_all * t, t, 1, 1}, .alignment = sizeof(float)}, i64(uid));
  }
  Tensor number(AttentionUid uid) { return graph.number(i64(uid)); }

  Tensor apply(PointwiseMode mode, Tensor x, Tensor b_operand) {
    const Tensor y = graph.between(x.dimensions);
    graph.pointwise({.mode = mode}, x, b_operand, y);
    return y;
  }
  Tensor apply(PointwiseMode mode, Tensor x) {
    const Tensor y = graph.between(x.dimensions);
    graph.pointwise({.mode = mode}, x, y);
    return y;
  }
  Tensor reduce(ReductionMode mode, Tensor x) {
    const Tensor y = graph.between(rows());
    graph.reduce(mode, x, y);
    return y;
  }
  // RETURNS: x if the key is at or before the query, otherwise minus infinity.
  Tensor causal(Tensor x) {
    const auto index = [&](i64 axis) {
      const Tensor y = graph.between(scores(), DataType::int32);
      graph.pointwise({.mode = PointwiseMode::gen_index, .axis = axis}, x, y);
      return y;
    };
    const Tensor row = index(2), column = index(3);
    const Tensor seen = graph.between(scores(), DataType::boolean);
    graph.pointwise({.mode = PointwiseMode::cmp_ge, .math = DataType::boolean}, row, column, seen);
    const Tensor y = graph.between(scores());
    graph.select(x, number(AttentionUid::minus_infinity), seen, y);
    return y;
  }
  // Transposes x, as the left factor of a product, in 16 bits.
  Tensor transposed(Tensor x) {
    // Dimensions and strides are swapped: no element moves.
    const Tensor y =
        graph.between({.dimensions = scores(), .strides = {h * t * t, t * t, 1, t}, .type = half});
    graph.reshape(x, y);
    return y;
  }
};

}  // namespace

cudnn::Graph cudnn_attention_forward(const cudnn::Library& library, const AttentionShape& s,
                                     const AttentionSlice& slice, Precision precision) {
  Builder at(library, s, slice, precision);
  const i64 columns = s.qkv_columns();
  const Tensor q = at.strips(AttentionUid::q, at.h, columns);
  const Tensor k = at.transposed_strips(AttentionUid::k, at.hk, columns);
  const Tensor v = at.strips(AttentionUid::v, at.hk, columns);

  const Tensor products = at.graph.between(at.scores());
  at.graph.matmul(q, k, products);
  const Tensor scaled = at.apply(PointwiseMode::mul, products, at.number(AttentionUid::scale));
  const Tensor masked = at.causal(scaled);
  const Tensor largest = at.reduce(ReductionMode::max, masked);
  const Tensor exponentials = at.apply(PointwiseMode::exp, at.apply(PointwiseMode::sub, masked, largest));
  const Tensor sums = at.reduce(ReductionMode::add, exponentials);
  const Tensor lse = at.numbers_of_rows(AttentionUid::lse, s.heads);
  at.graph.pointwise({.mode = PointwiseMode::add}, largest, at.apply(PointwiseMode::log, sums), lse);
  const Tensor p = at.graph.between(at.scores(), at.half);
  at.graph.pointwise({.mode = PointwiseMode::div}, exponentials, sums, p);
  at.graph.matmul(p, v, at.strips(AttentionUid::out, at.h, s.out_columns()));
  return std::move(at.graph);
}

cudnn::Graph cudnn_attention_backward(const cudnn::Library& library, const AttentionShape& s,
                                      const AttentionSlice& slice, Precision precision) {
  Builder at(library, s, slice, precision);
  const i64 columns = s.qkv_columns();
  const Tensor q = at.strips(AttentionUid::q, at.h, columns);
  const Tensor k = at.transposed_strips(AttentionUid::k, at.hk, columns);
  const Tensor v = at.transposed_strips(AttentionUid::v, at.hk, columns);
  const Tensor out = at.strips(AttentionUid::out, at.h, s.out_columns());
  const Tensor dout = at.strips(AttentionUid::dout, at.h, s.out_columns());
  const Tensor scale = at.number(AttentionUid::scale);

  // Sums of dout . out by row.
  const Tensor sums = at.numbers_of_rows(AttentionUid::softmax_sum, at.h);
  at.graph.pointwise({.mode = PointwiseMode::mul},
                     at.reduce(ReductionMode::add, at.apply(PointwiseMode::mul, dout, out)),
                     at.number(AttentionUid::one), sums);

  // dv = p^T dout
  const Tensor products = at.graph.between(at.scores());
  at.graph.matmul(q, k, products);
  const Tensor scaled = at.apply(PointwiseMode::mul, products, scale);
  const Tensor less = at.apply(PointwiseMode::sub, scaled, at.numbers_of_rows(AttentionUid::lse, s.heads));
  const Tensor p = at.apply(PointwiseMode::exp, at.causal(less));
  const auto of_key_heads = [&](Tensor left, Tensor right, AttentionUid uid) {
    const Tensor to = at.strips(uid, at.hk, columns);
    if (at.h == at.hk) return at.graph.matmul(left, right, to);
    const Tensor of_query_heads = at.graph.between({at.b, at.h, at.t, at.d}, at.half);
    at.graph.matmul(left, right, of_query_heads);
    at.graph.reduce(ReductionMode::add, of_query_heads, to);
  };
  of_key_heads(at.transposed(p), dout, AttentionUid::dv);

  // dk = ds^T q, ds = p (dout v^T - sums) scale
  const Tensor dp = at.graph.between(at.scores());
  at.graph.matmul(dout, v, dp);
  const Tensor ds = at.apply(PointwiseMode::mul,
                             at.apply(PointwiseMode::mul, at.apply(PointwiseMode::sub, dp, sums), p), scale);
  of_key_heads(at.transposed(ds), q, AttentionUid::dk);

  // dq = ds k, directly from ds: atomic additions to a sum in memory would make its bits vary.
  const Tensor rows_of_k = at.graph.between({.dimensions = {at.b, at.hk, at.t, at.d},
                                             .strides = {at.t * columns, at.d, columns, 1},
                                             .type = at.half});
  at.graph.reshape(k, rows_of_k);
  at.graph.matmul(ds, rows_of_k, at.strips(AttentionUid::dq, at.h, columns));
  return std::move(at.graph);
}

}  // namespace tidepool::cuda
