// Forward on tensor cores, bf16 or fp16, as in FlashAttention-2 (Dao, arXiv:2307.08691): a block owns rows of
// queries, visits keys in ascending order, and keeps its output and softmax in registers. From sm_80 on, v is
// loaded while scores are computed, and the next k while v is used.
//
// The bottleneck, for head size 128, T tokens, per block of 128 queries: 4 * 128 * 64 * 128 = 4.2 Mflop per
// tile of 64 keys. Tensor cores of an A100 (2048 flop per clock and multiprocessor) take 2048 clocks. Shared
// memory delivers 128 bytes per clock: four warps read k and v once each (128 KiB) and their q (32 KiB), 1280
// clocks: hidden. Exponentials, 16 per clock: 8192 / 16 = 512 clocks, hidden behind the products of the
// neighbouring block (two fit). From L2: 32 KiB per tile, 128 flop per byte: 2.4 TB/s at 312 Tflop/s, less
// than L2 delivers. So tensor cores bind. HBM is read and written about once for q, k, v and out, because
// blocks of one head run beside each other.
#pragma once

#include "kernels/attention/attention_m16n8k16.cuh"
#include "kernels/attention/attention_m8n8k4.cuh"

namespace tidepool::cuda {

// Maximum over the four lanes that share a row.
template <class Mma>
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, Mma::near_mate));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, Mma::far_mate));
}
template <class Mma>
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, Mma::near_mate);
  return x + __shfl_xor_sync(all_lanes, x, Mma::far_mate);
}
template <class Mma>
__device__ __forceinline__ bool is_first_of_row() {
  return (lane_index() & static_cast<u32>(Mma::near_mate | Mma::far_mate)) == 0;
}

// 16 queries of a warp. In each pair, [0] is this lane's row(), [1] the row row_step further.
template <class Mma, u32 size>
struct QueryRows {
  float out[size / 8][4];  // not yet divided by the sum
  float maximum[2];        // maximum of unscaled scores
  float sum[2];            // over this lane's columns only

  // Only the first lane of a row starts with the sum, because the lanes' sums are added at the end.
  __device__ __forceinline__ void clear(const SoftmaxStart& start) {
    UNROLL for (u32 n = 0; n < size / 8; ++n) UNROLL for (u32 i = 0; i < 4; ++i) out[n][i] = 0.0f;
    UNROLL for (u32 half = 0; half < 2; ++half) {
      maximum[half] = start.maximum;
      sum[half] = is_first_of_row<Mma>() ? start.sum : 0.0f;
    }
  }

  // Turns scores into exp(scale (score - maximum)) and scales earlier sums down if the maximum has risen.
  template <u32 tiles>
  __device__ __forceinline__ void softmax(float (&s)[tiles][4], float scale_log2) {
    float factor[2];
    UNROLL for (u32 half = 0; half < 2; ++half) {
      float top = maximum[half];
      UNROLL for (u32 n = 0; n < tiles; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = row_max<Mma>(top);
      const float level = level_of(top);
      factor[half] = exp2_fast((maximum[half] - level) * scale_log2);
      const float shift = -level * scale_log2;
      float total = 0;
      UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 2; ++i) {
        float& p = s[n][2 * half + i];
        p = exp2_fast(fmaf(p, scale_log2, shift));
        total += p;
      }
      sum[half] = fmaf(sum[half], factor[half], total);
      maximum[half] = top;
    }
    // Skipped when possible: after the first few tiles the maximum rarely rises. (Multiplying by one changes
    // no bit.)
    if (__any_sync(all_lanes, factor[0] != 1.0f || factor[1] != 1.0f)) {
      UNROLL for (u32 n = 0; n < size / 8; ++n) UNROLL for (u32 i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
    }
  }
};

// Masks keys above the diagonal. `row`, `key`: of s[0][0] in this lane.
template <class Mma, u32 tiles>
__device__ __forceinline__ void mask_scores(float (&s)[tiles][4], u32 row, u32 key) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (key + 8 * n + Mma::column_step * (i % 2) > row + Mma::row_step * (i / 2))
      s[n][i] = -__uint_as_float(infinity_bits);
  }
}

// Masks keys of documents before the row's own document. starts: of the lane's two rows.
template <class Mma, u32 tiles>
__device__ __forceinline__ void mask_documents(float (&s)[tiles][4], const u32 (&starts)[2], u32 key) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (key + 8 * n + Mma::column_step * (i % 2) < starts[i / 2]) s[n][i] = -__uint_as_float(infinity_bits);
  }
}

// Masks keys in the holes of the lane's two rows.
template <class Mma, u32 tiles>
__device__ __forceinline__ void mask_holes(float (&s)[tiles][4], const KeyHole (&holes)[2], u32 key) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (holes[i / 2].hides(key + 8 * n + Mma::column_step * (i % 2)))
      s[n][i] = -__uint_as_float(infinity_bits);
  }
}

template <class Mma, u32 tiles>
__device__ __forceinline__ void drop_probabilities(float (&p)[tiles][4], const DropoutRow& dropout, u64 first,
                                                   u32 stride) {
  const u32 kept =
      kept_in_tiles<tiles>([&](u32 n) { return Mma::kept_by_query_rows(dropout, first + 8 * n, stride); });
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (!is_kept_in_tile(kept, n, i)) p[n][i] = 0.0f;
  }
}

// Caps a lane's scores. `s`: products of queries and keys.
template <class Half, u32 tiles>
__device__ __forceinline__ void cap_scores(float (&s)[tiles][4], const AttentionSizes& sizes) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    s[n][i] = capped_score<Half>(sizes, s[n][i]).value;
  }
}

template <class Mma, u32 size, bool dropout, bool rare>
__global__ void __launch_bounds__(AttentionForwardTile<size, dropout, Mma::units>::threads)
    attention_forward_tensor(AttentionForwardArguments<typename Mma::Half> op) {
  if constexpr (Mma::is_here()) {
    using Half = typename Mma::Half;
    using Fragment = typename Mma::Fragment;
    using Tile = AttentionForwardTile<size, dropout, Mma::units>;
    constexpr u32 row_tiles = Tile::row_tiles, keys = Tile::keys, threads = Tile::threads;
    const u32 first = op.sizes.first, tokens = op.sizes.tokens;
    const u32 blocks = (tokens - first + Tile::rows - 1) / Tile::rows;
    const DeviceHead head = {op.sizes, blockIdx.x / blocks};
    const u32 query =
        // longest blocks first, so that short blocks even out the end
        first + (blocks - 1 - blockIdx.x % blocks) * Tile::rows;
    const u32 warp_row = 16 * row_tiles * warp_index(), warp_query = query + warp_row;
    const float scale_log2 = op.sizes.scale_log2;

    Half* q_tile = dynamic_shared<Half>();
    Half* k_tile = q_tile + Tile::rows * AttentionTileRow<size>::elements;
    Half* v_tile = k_tile + keys * AttentionTileRow<size>::elements;
    QueryRows<Mma, size> rows[row_tiles];
    UNROLL for (u32 m = 0; m < row_tiles; ++m) rows[m].clear(softmax_start(op, head));

    // Documents follow each other, so the first row sees the earliest key.
    const u32 key_begin = head.start(op.starts, query) / keys * keys;
    const u32 warp_start = head.start(op.starts, warp_query);
    const u32 warp_last_start = head.start(op.starts, warp_query + 16 * row_tiles - 1);

    load_tile<size, Tile::rows, threads>(q_tile, head.queries(op.qkv, query));
    load_tile<size, keys, threads>(k_tile, head.keys(op.keys, key_begin));
    async_copy_commit();
    const typename Mma::template Left<size> q_rows(q_tile + warp_row * AttentionTileRow<size>::elements);
    const typename Mma::template Columns<size> k_columns(k_tile);
    const typename Mma::template Rows<size> v_rows(v_tile);

    const u32 key_end = min(tokens, query + Tile::rows);
    for (u32 key = key_begin; key < key_end; key += keys) {
      // True if some row of this warp sees some key of the tile.
      const bool sees = warp_query < tokens && key < warp_query + 16 * row_tiles && key + keys > warp_start;
      async_copy_wait<0>();
      __syncthreads();  // k is loaded; no thread reads the last v any more
      load_tile<size, keys, threads>(v_tile, head.values(op.keys, key));
      async_copy_commit();
      const u32 row = warp_query + Mma::row(), column = key + Mma::column();  // row and column of s[0][0][0]
      float s[row_tiles][keys / 8][4];
      if (sees) {
        UNROLL for (u32 m = 0; m < row_tiles; ++m) UNROLL for (u32 n = 0; n < keys / 8; ++n) {
          UNROLL for (u32 i = 0; i < 4; ++i) s[m][n][i] = 0.0f;
        }
        UNROLL for (u32 k = 0; k < size / 16; ++k) {
          Fragment a[row_tiles], b;
          UNROLL for (u32 m = 0; m < row_tiles; ++m) q_rows.load(a[m], 16 * m, k);
          UNROLL for (u32 n = 0; n < keys / 16; ++n) {
            k_columns.load(b, 16 * n, k);
            UNROLL for (u32 m = 0; m < row_tiles; ++m) {
              Mma::multiply_columns(s[m][2 * n], s[m][2 * n + 1], a[m], b);
            }
          }
        }
      }
      async_copy_wait<0>();
      __syncthreads();  // v is loaded; no thread reads this k any more
      if (key + keys < key_end) load_tile<size, keys, threads>(k_tile, head.keys(op.keys, key + keys));
      async_copy_commit();
      if (!sees) continue;
      UNROLL for (u32 m = 0; m < row_tiles; ++m) {
        if (rare && op.sizes.raw_cap != 0) cap_scores<Half>(s[m], op.sizes);
        if (key + keys > warp_query + 1) mask_scores<Mma>(s[m], row + 16 * m, column);
        if (key < warp_last_start) {
          const u32 starts[2] = {head.start(op.starts, row + 16 * m),
                                 head.start(op.starts, row + 16 * m + Mma::row_step)};
          mask_documents<Mma>(s[m], starts, column);
        }
        if (rare && op.holes != nullptr) {
          const KeyHole holes[2] = {head.hole(op.holes, row + 16 * m),
                                    head.hole(op.holes, row + 16 * m + Mma::row_step)};
          mask_holes<Mma>(s[m], holes, column);
        }
        rows[m].softmax(s[m], scale_log2);
        if constexpr (dropout) {
          if (drops<rare>(op.dropout))
            drop_probabilities<Mma>(s[m], op.dropout, head.dropout(row + 16 * m, column), tokens);
        }
      }
      UNROLL for (u32 k = 0; k < keys / 16; ++k) {
        Fragment a[row_tiles], b;
        UNROLL for (u32 m = 0; m < row_tiles; ++m) {
          Mma::product_to_left(a[m], s[m][2 * k], s[m][2 * k + 1]);
        }
        UNROLL for (u32 n = 0; n < size / 16; ++n) {
          v_rows.load(b, 16 * k, 2 * n);
          UNROLL for (u32 m = 0; m < row_tiles; ++m) {
            Mma::multiply_rows(rows[m].out[2 * n], rows[m].out[2 * n + 1], a[m], b);
          }
        }
      }
    }

    UNROLL for (u32 m = 0; m < row_tiles; ++m) {
      float factor[2];
      UNROLL for (u32 half = 0; half < 2; ++half) {
        const float sum = row_sum<Mma>(rows[m].sum[half]);
        factor[half] = op.dropout.scale / sum;
        const u32 row = warp_query + 16 * m + Mma::row_step * half + Mma::row();
        if (op.lse != nullptr && row < tokens && is_first_of_row<Mma>()) {
          op.lse[head.lse(row)] = fmaf(rows[m].maximum[half], op.sizes.scale, logf(sum));
        }
      }
      store_product<Mma>(head.out(op.out, warp_query + 16 * m), rows[m].out, factor);
    }
  }
}

}  // namespace tidepool::cuda
