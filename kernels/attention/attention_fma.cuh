// Attention on fused multiply-adds: fp32 on every GPU, bf16 below sm_80, head sizes like 20. `lanes`
// neighbours of a warp own two rows, 16 columns each, in registers; rows of the other side stream through
// shared memory as floats, four at a time.
//
// The bottleneck: a float from shared memory serves two multiply-adds (two rows use it), and shared memory
// delivers 32 floats per clock to a multiprocessor that could do 128 multiply-adds: at most half of its peak.
// fp32 is for comparisons, not for big models, so this code stays simple.
#pragma once

#include "kernels/attention/attention_device.cuh"

namespace tidepool::cuda {

inline constexpr u32 fma_own = attention_fma_own, fma_columns = attention_fma_columns;
// Rows of the other side that are processed at a time. The kernel by keys owns four arrays, which leaves
// fewer registers.
inline constexpr u32 fma_batch = 4, fma_batch_by_keys = 2;
template <u32 batch>
using FmaScores = float[fma_own][batch];
using FmaRows = float[fma_own][fma_columns];

// A thread's place: lane `part` of group `group` owns rows own(0), own(1) of the block.
template <u32 lanes>
struct FmaPlace {
  static constexpr u32 columns = lanes * fma_columns;
  static constexpr u32 groups = attention_fma_threads / lanes;
  static constexpr u32 rows = attention_fma_rows(lanes), step = attention_fma_step(lanes);
  static_assert(step % fma_batch == 0 && step % fma_batch_by_keys == 0);
  u32 part, group;

  __device__ __forceinline__ FmaPlace() : part(threadIdx.x % lanes), group(threadIdx.x / lanes) {}
  __device__ __forceinline__ u32 own(u32 i) const { return group + i * groups; }
  // RETURNS: the column of this lane's element c. Lanes take four columns in turn, so that a group reads
  // shared memory in one run.
  __device__ __forceinline__ u32 column(u32 c) const { return 4 * (part + c / 4 * lanes) + c % 4; }
};

// Copies the block's `step` rows from `from` into [step, columns] floats, zero past the end.
template <u32 lanes, class T>
__device__ __forceinline__ void load_floats(float* to, const HeadRows<const T>& from) {
  using Place = FmaPlace<lanes>;
  KEEP_ROLLED for (u32 at = threadIdx.x; at < Place::step * Place::columns; at += attention_fma_threads) {
    const u32 row = at / Place::columns, column = at % Place::columns;
    to[at] = row < from.rows && column < from.columns ? widened(from.row(row)[column]) : 0.0f;
  }
}

template <u32 lanes, class T>
__device__ __forceinline__ void load_own(FmaRows& own, const FmaPlace<lanes>& place,
                                         const HeadRows<const T>& from) {
  UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 c = 0; c < fma_columns; ++c) {
    const u32 row = place.own(r), column = place.column(c);
    own[r][c] = row < from.rows && column < from.columns ? widened(from.row(row)[column]) : 0.0f;
  }
}

template <u32 lanes, class T>
__device__ __forceinline__ void store_own(const HeadRows<T>& to, const FmaPlace<lanes>& place,
                                          const FmaRows& own, const float (&factor)[fma_own]) {
  UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 c = 0; c < fma_columns; ++c) {
    const u32 row = place.own(r), column = place.column(c);
    if (row < to.rows && column < to.columns) to.row(row)[column] = narrowed<T>(own[r][c] * factor[r]);
  }
}

template <u32 lanes>
__device__ __forceinline__ void add_own(const HeadRows<float>& to, const FmaPlace<lanes>& place,
                                        const FmaRows& own, const float (&factor)[fma_own]) {
  UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 c = 0; c < fma_columns; ++c) {
    const u32 row = place.own(r), column = place.column(c);
    if (row < to.rows && column < to.columns) to.row(row)[column] += own[r][c] * factor[r];
  }
}

__device__ __forceinline__ void clear(FmaRows& own) {
  UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 c = 0; c < fma_columns; ++c) own[r][c] = 0.0f;
}

// dots[r][j] = own row r . row j of the batch, complete in every lane of the group.
template <u32 lanes, u32 batch>
__device__ __forceinline__ void dot_batch(FmaScores<batch>& dots, const FmaPlace<lanes>& place,
                                          const FmaRows& own, const float* rows) {
  UNROLL for (u32 j = 0; j < batch; ++j) {
    float sums[fma_own] = {};
    UNROLL for (u32 c = 0; c < fma_columns; c += 4) {
      const float4 x =
          *reinterpret_cast<const float4*>(rows + j * FmaPlace<lanes>::columns + place.column(c));
      UNROLL for (u32 r = 0; r < fma_own; ++r) {
        sums[r] = fmaf(own[r][c], x.x, sums[r]);
        sums[r] = fmaf(own[r][c + 1], x.y, sums[r]);
        sums[r] = fmaf(own[r][c + 2], x.z, sums[r]);
        sums[r] = fmaf(own[r][c + 3], x.w, sums[r]);
      }
    }
    UNROLL for (u32 r = 0; r < fma_own; ++r) {
      UNROLL for (u32 flip = 1; flip < lanes; flip *= 2) {
        sums[r] += __shfl_xor_sync(all_lanes, sums[r], static_cast<int>(flip));
      }
      dots[r][j] = sums[r];
    }
  }
}

// own row r += sum over j of weights[r][j] * row j of the batch.
template <u32 lanes, u32 batch>
__device__ __forceinline__ void add_batch(FmaRows& own, const FmaPlace<lanes>& place,
                                          const FmaScores<batch>& weights, const float* rows) {
  UNROLL for (u32 j = 0; j < batch; ++j) UNROLL for (u32 c = 0; c < fma_columns; c += 4) {
    const float4 x = *reinterpret_cast<const float4*>(rows + j * FmaPlace<lanes>::columns + place.column(c));
    UNROLL for (u32 r = 0; r < fma_own; ++r) {
      own[r][c] = fmaf(weights[r][j], x.x, own[r][c]);
      own[r][c + 1] = fmaf(weights[r][j], x.y, own[r][c + 1]);
      own[r][c + 2] = fmaf(weights[r][j], x.z, own[r][c + 2]);
      own[r][c + 3] = fmaf(weights[r][j], x.w, own[r][c + 3]);
    }
  }
}

// Bit r * batch + j is set if dropout keeps element(r, j). The lanes of a group draw one element each and
// vote. (`element` has a name at each call: nvcc 13.0 fails on a lambda in its place.)
template <u32 batch, u32 lanes, class Element>
__device__ __forceinline__ u32 kept_in_batch(const DropoutRow& dropout, const FmaPlace<lanes>& place,
                                             Element element) {
  constexpr u32 elements = fma_own * batch;
  if (dropout.threshold == 0) return (1u << elements) - 1;
  u32 kept = 0;
  UNROLL for (u32 from = 0; from < elements; from += lanes) {
    // with more lanes than elements, an element is drawn several times
    const u32 mine = (from + place.part) % elements;
    const u32 votes = __ballot_sync(all_lanes, dropout_keeps(dropout, element(mine / batch, mine % batch)));
    kept |= (votes >> (lane_index() - place.part) & (all_lanes >> (32 - lanes))) << from;
  }
  return kept;
}
template <u32 batch>
__device__ __forceinline__ bool is_kept(u32 kept, u32 r, u32 j) {
  return (kept >> (r * batch + j) & 1) != 0;
}

// A block of queries, and the keys that its queries see.
template <u32 lanes>
struct FmaQueries {
  using Place = FmaPlace<lanes>;
  Place place;
  DeviceHead head;
  u32 query, first_key, key_end;

  // `op`: AttentionForwardArguments or AttentionBackwardArguments.
  template <class Op>
  __device__ __forceinline__ explicit FmaQueries(const Op& op) : head{op.sizes, 0} {
    const u32 first = op.sizes.first, tokens = op.sizes.tokens;
    const u32 blocks = (tokens - first + Place::rows - 1) / Place::rows;
    head.head = blockIdx.x / blocks;
    query = first + (blocks - 1 - blockIdx.x % blocks) * Place::rows;
    first_key = head.start(op.starts, query) / Place::step * Place::step;
    key_end = min(tokens, query + Place::rows);
  }

  // Calls fn(first key, its row of k, its row of v) for each batch of keys, ascending.
  template <class T, class Fn>
  __device__ __forceinline__ void for_key_batches(const T* keys, Fn fn) const {
    float* k_rows = dynamic_shared<float>();
    float* v_rows = k_rows + Place::step * Place::columns;
    for (u32 tile = first_key; tile < key_end; tile += Place::step) {
      __syncthreads();
      load_floats<lanes>(k_rows, head.keys(keys, tile));
      load_floats<lanes>(v_rows, head.values(keys, tile));
      __syncthreads();
      KEEP_ROLLED for (u32 at = 0; at < Place::step && tile + at < key_end; at += fma_batch) {
        fn(tile + at, k_rows + at * Place::columns, v_rows + at * Place::columns);
      }
    }
  }
};

template <class T, u32 lanes>
__global__ void __launch_bounds__(attention_fma_threads)
    attention_forward_fma(AttentionForwardArguments<T> op) {
  const FmaQueries<lanes> block(op);
  const auto& [place, head, query, first_key, key_end] = block;
  const float scale_log2 = op.sizes.scale_log2, lowest = -__uint_as_float(infinity_bits);
  const SoftmaxStart start = softmax_start(op, head);

  FmaRows q, out;
  load_own(q, place, head.queries(op.qkv, query));
  clear(out);
  const u32 starts[fma_own] = {head.start(op.starts, query + place.own(0)),
                               head.start(op.starts, query + place.own(1))};
  const KeyHole holes[fma_own] = {head.hole(op.holes, query + place.own(0)),
                                  head.hole(op.holes, query + place.own(1))};
  float maximum[fma_own] = {start.maximum, start.maximum}, sum[fma_own] = {start.sum, start.sum};
  block.for_key_batches(op.keys, [&](u32 key, const float* k, const float* v) {
    FmaScores<fma_batch> s;
    dot_batch(s, place, q, k);
    const auto element = [&](u32 r, u32 j) { return head.dropout(query + place.own(r), key + j); };
    const u32 kept = kept_in_batch<fma_batch>(op.dropout, place, element);
    if (op.sizes.raw_cap != 0) {
      UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 j = 0; j < fma_batch; ++j) {
        s[r][j] = capped_score<float>(op.sizes, s[r][j]).value;
      }
    }
    UNROLL for (u32 r = 0; r < fma_own; ++r) {
      float top = maximum[r];
      UNROLL for (u32 j = 0; j < fma_batch; ++j) {
        if (key + j > query + place.own(r) || key + j < starts[r] || holes[r].hides(key + j))
          s[r][j] = lowest;
        top = fmaxf(top, s[r][j]);
      }
      const float level = level_of(top);
      const float factor = exp2_fast((maximum[r] - level) * scale_log2), shift = -level * scale_log2;
      maximum[r] = top;
      sum[r] *= factor;
      UNROLL for (u32 c = 0; c < fma_columns; ++c) out[r][c] *= factor;
      UNROLL for (u32 j = 0; j < fma_batch; ++j) {
        const float p = exp2_fast(fmaf(s[r][j], scale_log2, shift));
        sum[r] += p;
        s[r][j] = is_kept<fma_batch>(kept, r, j) ? p : 0.0f;
      }
    }
    add_batch(out, place, s, v);
  });

  float factor[fma_own];
  UNROLL for (u32 r = 0; r < fma_own; ++r) {
    factor[r] = op.dropout.scale / sum[r];
    const u32 row = query + place.own(r);
    if (op.lse != nullptr && row < op.sizes.tokens && place.part == 0) {
      op.lse[head.lse(row)] = fmaf(maximum[r], op.sizes.scale, logf(sum[r]));
    }
  }
  store_own(head.out(op.out, query), place, out, factor);
}

// A score of backward: whether its query sees its key, whether dropout keeps it, its row's statistics.
struct FmaScore {
  bool seen, kept;
  float lse2, delta;
};
// p: product of query and key; on return, the probability after dropout. ds: product of dout and value; on
// return, the score's gradient.
template <class T>
__device__ __forceinline__ void score_gradient(const AttentionBackwardArguments<T>& op, const FmaScore& score,
                                               float& p, float& ds) {
  const Capped product = op.sizes.raw_cap != 0 ? capped_score<float>(op.sizes, p) : Capped{p, 1.0f};
  const float likely = score.seen ? exp2_fast(fmaf(product.value, op.sizes.scale_log2, -score.lse2)) : 0.0f;
  const float dp = score.kept ? ds * op.dropout.scale : 0.0f;
  ds = likely * (dp - score.delta) * product.slope;
  p = score.kept ? likely : 0.0f;
}

// Computes dk and dv: blocks own keys; queries stream by, one query head of the kv head after the other.
template <class T, u32 lanes>
__global__ void __launch_bounds__(attention_fma_threads)
    attention_backward_keys_fma(AttentionBackwardArguments<T> op) {
  using Place = FmaPlace<lanes>;
  const Place place;
  const u32 tokens = op.sizes.tokens, blocks = (tokens + Place::rows - 1) / Place::rows;
  DeviceHead head = {op.sizes, blockIdx.x / blocks * op.sizes.group};
  const u32 key = blockIdx.x % blocks * Place::rows, key_end = key + Place::rows;
  BLOCK_SHARED(float[2][Place::step], statistics);
  BLOCK_SHARED(u32[Place::step], starts);
  BLOCK_SHARED(i32[2][Place::step], holes);  // begins and ends
  float* q_rows = dynamic_shared<float>();
  float* dout_rows = q_rows + Place::step * Place::columns;

  FmaRows k, v, dk, dv;
  load_own(k, place, head.keys(op.keys, key));
  load_own(v, place, head.values(op.keys, key));
  clear(dk);
  clear(dv);
  const u32 first = max(key / Place::step * Place::step, op.sizes.first),
            last_head = head.head + op.sizes.group - 1;
  for (u32 tile = first;;) {
    __syncthreads();
    load_floats<lanes>(q_rows, head.queries(op.qkv, tile));
    load_floats<lanes>(dout_rows, head.out(op.dout, tile));
    if (threadIdx.x < Place::step) {
      const RowStatistics row = row_statistics(op, head, tile + threadIdx.x);
      statistics[0][threadIdx.x] = row.lse2;
      statistics[1][threadIdx.x] = row.delta;
      starts[threadIdx.x] = row.start;
      holes[0][threadIdx.x] = row.hole.begin;
      holes[1][threadIdx.x] = row.hole.end;
    }
    __syncthreads();
    KEEP_ROLLED for (u32 at = 0; at < Place::step && tile + at < tokens; at += fma_batch_by_keys) {
      const u32 query = tile + at;
      FmaScores<fma_batch_by_keys> p, ds;
      dot_batch(p, place, k, q_rows + at * Place::columns);
      dot_batch(ds, place, v, dout_rows + at * Place::columns);
      const auto element = [&](u32 r, u32 j) { return head.dropout(query + j, key + place.own(r)); };
      const u32 kept = kept_in_batch<fma_batch_by_keys>(op.dropout, place, element);
      UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 j = 0; j < fma_batch_by_keys; ++j) {
        const u32 own = key + place.own(r);
        score_gradient(op,
                       {.seen = own <= query + j && own >= starts[at + j] &&
                                !KeyHole{holes[0][at + j], holes[1][at + j]}.hides(own),
                        .kept = is_kept<fma_batch_by_keys>(kept, r, j),
                        .lse2 = statistics[0][at + j],
                        .delta = statistics[1][at + j]},
                       p[r][j], ds[r][j]);
      }
      add_batch(dv, place, p, dout_rows + at * Place::columns);
      add_batch(dk, place, ds, q_rows + at * Place::columns);
    }
    tile += Place::step;
    if (tile < tokens && head.start(op.starts, tile) < key_end) continue;
    if (head.head == last_head) break;
    ++head.head;
    tile = first;
  }
  const float k_factor[fma_own] = {op.sizes.scale, op.sizes.scale},
              v_factor[fma_own] = {op.dropout.scale, op.dropout.scale};
  if (op.dpast != nullptr) {
    add_own(head.keys(op.dpast, key), place, dk, k_factor);
    add_own(head.values(op.dpast, key), place, dv, v_factor);
  } else {
    store_own(head.keys(op.dqkv, key), place, dk, k_factor);
    store_own(head.values(op.dqkv, key), place, dv, v_factor);
  }
}

// Computes dq: blocks own queries, keys stream by.
template <class T, u32 lanes>
__global__ void __launch_bounds__(attention_fma_threads)
    attention_backward_queries_fma(AttentionBackwardArguments<T> op) {
  const FmaQueries<lanes> block(op);
  const auto& [place, head, query, first_key, key_end] = block;

  FmaRows q, dout, dq;
  load_own(q, place, head.queries(op.qkv, query));
  load_own(dout, place, head.out(op.dout, query));
  clear(dq);
  const RowStatistics rows[fma_own] = {row_statistics(op, head, query + place.own(0)),
                                       row_statistics(op, head, query + place.own(1))};
  block.for_key_batches(op.keys, [&](u32 key, const float* k, const float* v) {
    FmaScores<fma_batch> p, ds;
    dot_batch(p, place, q, k);
    dot_batch(ds, place, dout, v);
    const auto element = [&](u32 r, u32 j) { return head.dropout(query + place.own(r), key + j); };
    const u32 kept = kept_in_batch<fma_batch>(op.dropout, place, element);
    UNROLL for (u32 r = 0; r < fma_own; ++r) UNROLL for (u32 j = 0; j < fma_batch; ++j) {
      score_gradient(op,
                     {.seen = key + j <= query + place.own(r) && key + j >= rows[r].start &&
                              !rows[r].hole.hides(key + j),
                      .kept = is_kept<fma_batch>(kept, r, j),
                      .lse2 = rows[r].lse2,
                      .delta = rows[r].delta},
                     p[r][j], ds[r][j]);
    }
    add_batch(dq, place, ds, k);
  });
  __syncthreads();  // every lane has read its rows' delta, which dq will overwrite
  store_own(head.queries(op.dqkv, query), place, dq, {op.sizes.scale, op.sizes.scale});
}

}  // namespace tidepool::cuda
