// Forward on tensor cores, bf16 or fp16, as FlashAttention-2 does it (Dao, arXiv:2307.08691): a block owns
// rows of queries, meets keys in ascending order, keeps its output and its softmax in registers. While scores
// are made, v comes; while v is used, the next k comes.
//
// What binds, head size 128, T tokens, per block of 128 queries: 4 * 128 * 64 * 128 = 4.2 Mflop per tile of
// 64 keys. Tensor cores of an A100 (2048 flop per clock and multiprocessor) take 2048 clocks for it. Shared
// memory gives 128 bytes per clock: four warps read k and v once each (128 KiB) and their q (32 KiB), 1280
// clocks: hidden. Exponentials, 16 per clock: 8192 / 16 = 512 clocks, beside the products of the block's
// neighbour (two fit). From L2: 32 KiB per tile, 128 flop per byte: 2.4 TB/s at 312 Tflop/s, less than L2
// gives. Tensor cores bind; HBM sees q, k, v and out about once, as blocks of one head run beside each other.
#pragma once

#include "kernels/attention/attention_dropout.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace tidepool::cuda {

// Over the four lanes that share a row.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}

// 16 queries of a warp: [0] of each pair is row lane / 4, [1] the eighth after it.
template <u32 size>
struct QueryRows {
  float out[size / 8][4];  // not yet divided by the sum
  float maximum[2];        // of scores, not scaled
  float sum[2];            // of this lane's columns only

  __device__ __forceinline__ void clear() {
    UNROLL for (u32 n = 0; n < size / 8; ++n) UNROLL for (u32 i = 0; i < 4; ++i) out[n][i] = 0.0f;
    UNROLL for (u32 half = 0; half < 2; ++half) {
      maximum[half] = -__uint_as_float(infinity_bits);
      sum[half] = 0.0f;
    }
  }

  // Scores to exp(scale (score - maximum)); what was summed before shrinks where the maximum has risen.
  template <u32 tiles>
  __device__ __forceinline__ void softmax(float (&s)[tiles][4], float scale_log2) {
    float factor[2];
    UNROLL for (u32 half = 0; half < 2; ++half) {
      float top = maximum[half];
      UNROLL for (u32 n = 0; n < tiles; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = row_max(top);
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
    // After the first few tiles maxima hardly move: mostly there is nothing to do. (Times one changes no
    // bit.)
    if (__any_sync(all_lanes, factor[0] != 1.0f || factor[1] != 1.0f)) {
      UNROLL for (u32 n = 0; n < size / 8; ++n) UNROLL for (u32 i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
    }
  }
};

// Keys above the diagonal do not count. `row`, `key`: of s[0][0] in this lane.
template <u32 tiles>
__device__ __forceinline__ void mask_scores(float (&s)[tiles][4], u32 row, u32 key) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (key + 8 * n + i % 2 > row + 8 * (i / 2)) s[n][i] = -__uint_as_float(infinity_bits);
  }
}

// Keys of documents before the row's own do not count. starts: of rows 0 and 8 of the tile.
template <u32 tiles>
__device__ __forceinline__ void mask_documents(float (&s)[tiles][4], const u32 (&starts)[2], u32 key) {
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (key + 8 * n + i % 2 < starts[i / 2]) s[n][i] = -__uint_as_float(infinity_bits);
  }
}

template <u32 tiles>
__device__ __forceinline__ void drop_probabilities(float (&p)[tiles][4], const DropoutRow& dropout, u64 first,
                                                   u32 stride) {
  const u32 kept =
      kept_in_tiles<tiles>([&](u32 n) { return kept_by_query_rows(dropout, first + 8 * n, stride); });
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    if (!is_kept_in_tile(kept, n, i)) p[n][i] = 0.0f;
  }
}

template <class Half, u32 size, bool dropout>
__global__ void __launch_bounds__(AttentionForwardTile<size, dropout>::threads)
    attention_forward_tensor(AttentionForwardArguments<Half> op) {
  if constexpr (has_mma_16x8x16<Half>()) {
    using Tile = AttentionForwardTile<size, dropout>;
    constexpr u32 row_tiles = Tile::row_tiles, keys = Tile::keys, threads = Tile::threads;
    const u32 tokens = op.sizes.tokens, blocks = (tokens + Tile::rows - 1) / Tile::rows;
    const DeviceHead head = {op.sizes, blockIdx.x / blocks};
    const u32 query =
        (blocks - 1 - blockIdx.x % blocks) * Tile::rows;  // the longest first: short ones even out the end
    const u32 warp_row = 16 * row_tiles * warp_index(), warp_query = query + warp_row;
    const float scale_log2 = op.sizes.scale_log2;

    Half* q_tile = dynamic_shared<Half>();
    Half* k_tile = q_tile + Tile::rows * AttentionTileRow<size>::elements;
    Half* v_tile = k_tile + keys * AttentionTileRow<size>::elements;
    QueryRows<size> rows[row_tiles];
    UNROLL for (u32 m = 0; m < row_tiles; ++m) rows[m].clear();

    // Documents follow each other: the first row sees furthest back.
    const u32 key_begin = head.start(op.starts, query) / keys * keys;
    const u32 warp_start = head.start(op.starts, warp_query);
    const u32 warp_last_start = head.start(op.starts, warp_query + 16 * row_tiles - 1);

    load_tile<size, Tile::rows, threads>(q_tile, head.qkv(op.qkv, 0, query));
    load_tile<size, keys, threads>(k_tile, head.qkv(op.qkv, 1, key_begin));
    async_copy_commit();
    const auto q_rows = left_factor<size>(q_tile + warp_row * AttentionTileRow<size>::elements);
    const auto k_rows = right_factor_transposed<size>(k_tile);
    const auto v_rows = right_factor<size>(v_tile);

    const u32 key_end = min(tokens, query + Tile::rows);
    for (u32 key = key_begin; key < key_end; key += keys) {
      // Some row of this warp.
      const bool sees = warp_query < tokens && key < warp_query + 16 * row_tiles && key + keys > warp_start;
      async_copy_wait<0>();
      __syncthreads();  // k has come; nobody reads the last v any more
      load_tile<size, keys, threads>(v_tile, head.qkv(op.qkv, 2, key));
      async_copy_commit();
      const u32 row = warp_query + lane_index() / 4, column = key + 2 * (lane_index() % 4);  // of s[0][0][0]
      float s[row_tiles][keys / 8][4];
      if (sees) {
        UNROLL for (u32 m = 0; m < row_tiles; ++m) UNROLL for (u32 n = 0; n < keys / 8; ++n) {
          UNROLL for (u32 i = 0; i < 4; ++i) s[m][n][i] = 0.0f;
        }
        UNROLL for (u32 k = 0; k < size / 16; ++k) {
          Fragment a[row_tiles], b;
          UNROLL for (u32 m = 0; m < row_tiles; ++m) load_matrices(a[m], q_rows.at(16 * m, 2 * k));
          UNROLL for (u32 n = 0; n < keys / 16; ++n) {
            load_matrices(b, k_rows.at(16 * n, 2 * k));
            UNROLL for (u32 m = 0; m < row_tiles; ++m) mma_pair<Half>(s[m][2 * n], s[m][2 * n + 1], a[m], b);
          }
        }
      }
      async_copy_wait<0>();
      __syncthreads();  // v has come; nobody reads this k any more
      if (key + keys < key_end) load_tile<size, keys, threads>(k_tile, head.qkv(op.qkv, 1, key + keys));
      async_copy_commit();
      if (!sees) continue;
      UNROLL for (u32 m = 0; m < row_tiles; ++m) {
        if (key + keys > warp_query + 1) mask_scores(s[m], row + 16 * m, column);
        if (key < warp_last_start) {
          const u32 starts[2] = {head.start(op.starts, row + 16 * m),
                                 head.start(op.starts, row + 16 * m + 8)};
          mask_documents(s[m], starts, column);
        }
        rows[m].softmax(s[m], scale_log2);
        if constexpr (dropout)
          drop_probabilities(s[m], op.dropout, head.dropout(row + 16 * m, column), tokens);
      }
      UNROLL for (u32 k = 0; k < keys / 16; ++k) {
        Fragment a[row_tiles], b;
        UNROLL for (u32 m = 0; m < row_tiles; ++m) to_left_factor<Half>(a[m], s[m], k);
        UNROLL for (u32 n = 0; n < size / 16; ++n) {
          load_matrices_transposed(b, v_rows.at(16 * k, 2 * n));
          UNROLL for (u32 m = 0; m < row_tiles; ++m) {
            mma_pair<Half>(rows[m].out[2 * n], rows[m].out[2 * n + 1], a[m], b);
          }
        }
      }
    }

    UNROLL for (u32 m = 0; m < row_tiles; ++m) {
      float factor[2];
      UNROLL for (u32 half = 0; half < 2; ++half) {
        const float sum = row_sum(rows[m].sum[half]);
        factor[half] = op.dropout.scale / sum;
        const u32 row = warp_query + 16 * m + 8 * half + lane_index() / 4;
        if (op.lse != nullptr && row < tokens && lane_index() % 4 == 0) {
          op.lse[head.lse(row)] = fmaf(rows[m].maximum[half], op.sizes.scale, logf(sum));
        }
      }
      store_product(head.out(op.out, warp_query + 16 * m), rows[m].out, factor);
    }
  }
}

}  // namespace tidepool::cuda
