// Backward on tensor cores, bf16 or fp16, in two kernels that each own the arrays they write: one by keys for
// dk and dv, one by queries for dq. FlashAttention-2 computes dq in the kernel by keys and adds it with
// atomics. Here scores and dp are computed twice instead (7 products, not 5), so that bits depend on nothing
// but the arguments.
//
// A warp owns 16 rows of two arrays, for most sizes as fragments in registers; the other two arrays stream
// through shared memory.
//
// The bottleneck, for head size 128, per block of 128 keys and 32 queries: 4 products, 4.2 Mflop, 2048 clocks
// of an A100's tensor cores. Eight warps read each tile twice (q and dout, 8 KiB each): 256 KiB, 2048 clocks
// of shared memory. So both bind, about equally. dq has 3 products per three reads: the same ratio. From L2:
// 16 KiB per 4.2 Mflop. Registers are full (dk, dv: 128; k, v: 64), so one block of eight warps runs per
// multiprocessor.
#pragma once

#include "kernels/attention/attention_m16n8k16.cuh"
#include "kernels/attention/attention_m8n8k4.cuh"

namespace tidepool::cuda {

// A warp's 16 rows of an array as left factor: kept in registers, loaded again each time, or in a tile of
// shared memory that the block has filled.
template <class Mma, u32 size, OwnRowsLie lie>
struct OwnRows {
  using Half = typename Mma::Half;
  HeadRows<const Half> from;
  typename Mma::Fragment fragments[lie == OwnRowsLie::in_registers ? size / 16 : 1];

  __device__ __forceinline__ OwnRows(const HeadRows<const Half>& rows, const Half*) : from(rows) {
    if constexpr (lie == OwnRowsLie::in_registers) {
      UNROLL for (u32 k = 0; k < size / 16; ++k) Mma::load_left(fragments[k], from, k);
    }
  }
  __device__ __forceinline__ void operator()(u32 k, typename Mma::Fragment& a) const {
    if constexpr (lie == OwnRowsLie::in_registers) {
      UNROLL for (u32 i = 0; i < sizeof a / sizeof a[0]; ++i) a[i] = fragments[k][i];
    } else {
      Mma::load_left(a, from, k);
    }
  }
};
template <class Mma, u32 size>
struct OwnRows<Mma, size, OwnRowsLie::in_shared> {
  typename Mma::template Left<size> rows;

  __device__ __forceinline__ OwnRows(const HeadRows<const typename Mma::Half>&,
                                     const typename Mma::Half* tile)
      : rows(tile + 16 * warp_index() * AttentionTileRow<size>::elements) {}
  __device__ __forceinline__ void operator()(u32 k, typename Mma::Fragment& a) const { rows.load(a, 0, k); }
};

// RETURNS: the two entries for this lane's columns of a tile, from an array by columns of scores; p is at
// column().
template <class Mma>
__device__ __forceinline__ float2 of_columns(const float* p) {
  if constexpr (Mma::column_step == 1) return *reinterpret_cast<const float2*>(p);
  return make_float2(p[0], p[Mma::column_step]);
}
template <class Mma>
__device__ __forceinline__ uint2 of_columns(const u32* p) {
  if constexpr (Mma::column_step == 1) return *reinterpret_cast<const uint2*>(p);
  return make_uint2(p[0], p[Mma::column_step]);
}

// RETURNS: a product of query and key as the softmax sees it, and its derivative.
template <bool rare, class Half>
__device__ __forceinline__ Capped score_of(const AttentionSizes& sizes, float product) {
  if (rare && sizes.raw_cap != 0) return capped_score<Half>(sizes, product);
  return {product, 1.0f};
}

// Computes dk and dv. A block's warps own 16 keys each; all queries that see these keys stream by, one query
// head of the kv head after the other.
template <class Mma, u32 size, bool dropout, bool rare>
__global__ void __launch_bounds__(AttentionBackwardTile<size, Mma::units>::threads,
                                  AttentionBackwardTile<size, Mma::units>::blocks)
    attention_backward_keys_tensor(AttentionBackwardArguments<typename Mma::Half> op) {
  if constexpr (Mma::is_here()) {
    using Half = typename Mma::Half;
    using Tile = AttentionBackwardTile<size, Mma::units>;
    constexpr u32 step = Tile::step, batch = Tile::query_batch, outputs = size / 8 / Tile::parts;
    constexpr u32 tile_elements = step * AttentionTileRow<size>::elements;
    const u32 tokens = op.sizes.tokens, blocks = (tokens + Tile::rows - 1) / Tile::rows;
    const u32 part = blockIdx.x % Tile::parts, block = blockIdx.x / Tile::parts % blocks;
    DeviceHead head = {op.sizes, blockIdx.x / Tile::parts / blocks * op.sizes.group};
    const u32 last_head = head.head + op.sizes.group - 1;
    // longest blocks first: the first keys are seen by most queries
    const u32 block_key = block * Tile::rows, first_query = max(block_key, op.sizes.first);
    const u32 warp_key = block_key + 16 * warp_index(), key = warp_key + Mma::row();
    const float scale_log2 = op.sizes.scale_log2;
    const bool bounded = op.starts != nullptr || op.sizes.window != 0;

    Half* own_tiles = dynamic_shared<Half>();          // [k and v], if in shared memory
    Half* tiles = own_tiles + 2 * Tile::own_elements;  // [stages, q and dout]
    float* statistics = reinterpret_cast<float*>(
        tiles + 2 * Tile::stages * tile_elements);  // [stages, lse and delta and start, step]
    const auto start_loading = [&](u32 stage, const DeviceHead& of, u32 query) {
      Half* to = tiles + stage * 2 * tile_elements;
      load_tile<size, step, Tile::threads>(to, of.queries(op.qkv, query));
      load_tile<size, step, Tile::threads>(to + tile_elements, of.out(op.dout, query));
      if (threadIdx.x < step) {  // rows past the end are zero, like their q and dout, and add nothing
        const u32 row = query + threadIdx.x;
        float* mine = statistics + stage * 3 * step + threadIdx.x;
        async_copy_4(mine, op.lse + of.lse(row), row < tokens);
        async_copy_4(mine + step, of.queries(op.dqkv, row).first, row < tokens);  // address of delta
        if (op.starts != nullptr) {
          async_copy_4(mine + 2 * step, op.starts + of.of_row(min(row, tokens - 1)));
        }
      }
      async_copy_commit();
    };

    if constexpr (Tile::own == OwnRowsLie::in_shared) {
      load_tile<size, Tile::rows, Tile::threads>(own_tiles, head.keys(op.keys, block_key));
      load_tile<size, Tile::rows, Tile::threads>(own_tiles + Tile::own_elements,
                                                 head.values(op.keys, block_key));
    }
    start_loading(0, head, first_query);
    const OwnRows<Mma, size, Tile::own> k(head.keys(op.keys, warp_key), own_tiles);
    const OwnRows<Mma, size, Tile::own> v(head.values(op.keys, warp_key), own_tiles + Tile::own_elements);
    float dk[outputs][4] = {}, dv[outputs][4] = {};

    u32 query = first_query;
    for (u32 stage = 0;; stage = Tile::after(stage)) {
      async_copy_wait<0>();
      __syncthreads();  // this stage is filled; no thread reads the other stage any more
      DeviceHead next_head = head;
      u32 next_query = query + step;
      if (next_query >= tokens || head.start(op.starts, next_query) >= block_key + Tile::rows) {
        ++next_head.head;
        next_query = first_query;
      }
      const bool more = next_head.head <= last_head;
      if (more && Tile::stages > 1) start_loading(Tile::after(stage), next_head, next_query);
      const float* const stage_statistics = statistics + stage * 3 * step;
      const u32* const documents = reinterpret_cast<const u32*>(stage_statistics + 2 * step);
      const auto start = [&](u32 at) {  // first key that a query of the tile sees
        return head.first_seen(query + at, op.starts != nullptr ? documents[at] : 0);
      };
      KEEP_ROLLED for (u32 at = 0; at < step; at += batch) {
        if (warp_key >= tokens || query + at + batch <= warp_key) continue;  // all above the diagonal
        if (bounded && start(at) >= warp_key + 16) break;                    // all see later keys only
        const Half* q_tile = tiles + stage * 2 * tile_elements + at * AttentionTileRow<size>::elements;
        const Half* dout_tile = q_tile + tile_elements;
        const u32 column = at + Mma::column();
        u32 kept = all_kept;  // drawn before the scores exist: both would not fit into registers
        if constexpr (dropout) {
          if (drops<rare>(op.dropout)) {
            kept = kept_in_tiles<batch / 8>([&](u32 n) {
              return Mma::kept_by_key_rows(op.dropout, head.dropout(query + column + 8 * n, key), tokens);
            });
          }
        }
        float p[batch / 8][4], ds[batch / 8][4];  // [keys, queries]
        two_times_transposed<Mma, size>(p, k, q_tile, ds, v, dout_tile);
        const float* lse = stage_statistics + column;
        const bool diagonal = query + at < warp_key + 15;
        // some queries do not see all keys
        const bool crossing = bounded && start(at + batch - 1) > warp_key;
        UNROLL for (u32 n = 0; n < batch / 8; ++n) {
          const u32 first = query + column + 8 * n;
          const float2 lse_of = of_columns<Mma>(lse + 8 * n), delta_of = of_columns<Mma>(lse + step + 8 * n);
          const float lse2[2] = {lse_of.x * log2_of_e, lse_of.y * log2_of_e};
          const u32 mine = column + 8 * n;
          const uint2 start_of =
              crossing ? make_uint2(start(mine), start(mine + Mma::column_step)) : make_uint2(0, 0);
          KeyHole holes[2] = {};
          if (rare && op.holes != nullptr)
            for (u32 i = 0; i < 2; ++i) holes[i] = head.hole(op.holes, first + Mma::column_step * i);
          UNROLL for (u32 i = 0; i < 4; ++i) {
            const Capped score = score_of<rare, Half>(op.sizes, p[n][i]);
            float likely = exp2_fast(fmaf(score.value, scale_log2, -lse2[i % 2]));
            const u32 at_key = key + Mma::row_step * (i / 2);
            if (diagonal && at_key > first + Mma::column_step * (i % 2)) likely = 0.0f;
            if (crossing && at_key < (i % 2 != 0 ? start_of.y : start_of.x)) likely = 0.0f;
            if (rare && holes[i % 2].hides(at_key)) likely = 0.0f;
            float dp = ds[n][i];
            if constexpr (dropout) dp = is_kept_in_tile(kept, n, i) ? dp * op.dropout.scale : 0.0f;
            ds[n][i] = likely * (dp - (i % 2 != 0 ? delta_of.y : delta_of.x));
            if constexpr (rare) ds[n][i] *= score.slope;
            p[n][i] = !dropout || is_kept_in_tile(kept, n, i) ? likely : 0.0f;
          }
        }
        add_product<Mma, size>(dv, p, dout_tile, part * outputs);
        add_product<Mma, size>(dk, ds, q_tile, part * outputs);
      }
      if (!more) break;
      head = next_head;
      query = next_query;
      if constexpr (Tile::stages == 1) {
        __syncthreads();  // no thread reads this stage any more
        start_loading(0, head, query);
      }
    }

    const float k_factor[2] = {op.sizes.scale, op.sizes.scale},
                v_factor[2] = {op.dropout.scale, op.dropout.scale};
    if (op.dpast != nullptr) {
      add_to_rows<Mma>(head.keys(op.dpast, warp_key), dk, k_factor, part * outputs);
      add_to_rows<Mma>(head.values(op.dpast, warp_key), dv, v_factor, part * outputs);
    } else {
      store_product<Mma>(head.keys(op.dqkv, warp_key), dk, k_factor, part * outputs);
      store_product<Mma>(head.values(op.dqkv, warp_key), dv, v_factor, part * outputs);
    }
  }
}

// Computes dq. A block's warps own 16 queries each; all keys that these queries see stream by.
template <class Mma, u32 size, bool dropout, bool rare>
__global__ void __launch_bounds__(AttentionBackwardTile<size, Mma::units>::threads,
                                  AttentionBackwardTile<size, Mma::units>::blocks)
    attention_backward_queries_tensor(AttentionBackwardArguments<typename Mma::Half> op) {
  if constexpr (Mma::is_here()) {
    using Half = typename Mma::Half;
    using Tile = AttentionBackwardTile<size, Mma::units>;
    constexpr u32 step = Tile::step, batch = Tile::key_batch;
    constexpr u32 tile_elements = step * AttentionTileRow<size>::elements;
    const u32 first = op.sizes.first, tokens = op.sizes.tokens;
    const u32 blocks = (tokens - first + Tile::rows - 1) / Tile::rows;
    const DeviceHead head = {op.sizes, blockIdx.x / blocks};
    const u32 block_query = first + (blocks - 1 - blockIdx.x % blocks) * Tile::rows;
    const u32 warp_query = block_query + 16 * warp_index(), query = warp_query + Mma::row();
    const float scale_log2 = op.sizes.scale_log2;

    Half* own_tiles = dynamic_shared<Half>();          // [q and dout], if in shared memory
    Half* tiles = own_tiles + 2 * Tile::own_elements;  // [stages, k and v]
    const auto start_loading = [&](u32 stage, u32 key) {
      Half* to = tiles + stage * 2 * tile_elements;
      load_tile<size, step, Tile::threads>(to, head.keys(op.keys, key));
      load_tile<size, step, Tile::threads>(to + tile_elements, head.values(op.keys, key));
      async_copy_commit();
    };

    // Documents follow each other, so the first row sees the earliest key.
    const u32 key_begin = head.start(op.starts, block_query) / step * step;
    const u32 warp_start = head.start(op.starts, warp_query);
    const u32 warp_last_start = head.start(op.starts, warp_query + 15);
    if constexpr (Tile::own == OwnRowsLie::in_shared) {
      load_tile<size, Tile::rows, Tile::threads>(own_tiles, head.queries(op.qkv, block_query));
      load_tile<size, Tile::rows, Tile::threads>(own_tiles + Tile::own_elements,
                                                 head.out(op.dout, block_query));
    }
    start_loading(0, key_begin);
    const OwnRows<Mma, size, Tile::own> q(head.queries(op.qkv, warp_query), own_tiles);
    const OwnRows<Mma, size, Tile::own> dout(head.out(op.dout, warp_query), own_tiles + Tile::own_elements);
    const RowStatistics rows[2] = {row_statistics(op, head, query),
                                   row_statistics(op, head, query + Mma::row_step)};
    float dq[size / 8][4] = {};

    const u32 key_end = min(tokens, block_query + Tile::rows);
    u32 stage = 0;
    for (u32 key = key_begin; key < key_end; key += step, stage = Tile::after(stage)) {
      async_copy_wait<0>();
      __syncthreads();  // this stage is filled; no thread reads the other stage any more
      if (key + step < key_end && Tile::stages > 1) start_loading(Tile::after(stage), key + step);
      KEEP_ROLLED for (u32 at = 0; at < step; at += batch) {
        if (warp_query >= tokens || key + at >= warp_query + 16)
          break;                                       // above the diagonal for the whole warp
        if (key + at + batch <= warp_start) continue;  // all in earlier documents
        const Half* k_tile = tiles + stage * 2 * tile_elements + at * AttentionTileRow<size>::elements;
        const u32 column = key + at + Mma::column();
        u32 kept = all_kept;
        if constexpr (dropout) {
          if (drops<rare>(op.dropout)) {
            kept = kept_in_tiles<batch / 8>([&](u32 n) {
              return Mma::kept_by_query_rows(op.dropout, head.dropout(query, column + 8 * n), tokens);
            });
          }
        }
        float s[batch / 8][4], ds[batch / 8][4];  // [queries, keys]
        two_times_transposed<Mma, size>(s, q, k_tile, ds, dout, k_tile + tile_elements);
        const bool diagonal = key + at + batch > warp_query + 1, crossing = key + at < warp_last_start;
        UNROLL for (u32 n = 0; n < batch / 8; ++n) {
          UNROLL for (u32 i = 0; i < 4; ++i) {
            const Capped score = score_of<rare, Half>(op.sizes, s[n][i]);
            float p = exp2_fast(fmaf(score.value, scale_log2, -rows[i / 2].lse2));
            const u32 at_key = column + 8 * n + Mma::column_step * (i % 2);
            if (diagonal && at_key > query + Mma::row_step * (i / 2)) p = 0.0f;
            if (crossing && at_key < rows[i / 2].start) p = 0.0f;
            if (rare && rows[i / 2].hole.hides(at_key)) p = 0.0f;
            float dp = ds[n][i];
            if constexpr (dropout) dp = is_kept_in_tile(kept, n, i) ? dp * op.dropout.scale : 0.0f;
            ds[n][i] = p * (dp - rows[i / 2].delta);
            if constexpr (rare) ds[n][i] *= score.slope;
          }
        }
        add_product<Mma, size>(dq, ds, k_tile);
      }
      if constexpr (Tile::stages == 1) {
        __syncthreads();  // no thread reads this stage any more
        if (key + step < key_end) start_loading(0, key + step);
      }
    }

    __syncwarp();  // every lane has read its rows' delta, which dq will overwrite
    const float factor[2] = {op.sizes.scale, op.sizes.scale};
    store_product<Mma>(head.queries(op.dqkv, warp_query), dq, factor);
  }
}

}  // namespace tidepool::cuda
