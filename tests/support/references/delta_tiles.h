// Runs the rule of recurrent layers tile by tile, with states from tile to tile, as long sequences do.
#pragma once

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool::test {

// Arrays of whole sequences, as in GatedDelta and GatedDeltaBackward.
struct DeltaTileArrays {
  ConstValues qkv, projected, dout;
  Param a_log, dt_bias, skip;
  const i32* starts = nullptr;
  Values out, dqkv, dprojected;
  float *da_log = nullptr, *ddt_bias = nullptr, *dskip = nullptr;
  float *partials = nullptr, *states = nullptr;
  float* borders = nullptr;    // [tiles, NV, DK, DV]: the state before a tile
  float* gradients = nullptr;  // [2, NV, DK, DV]
};

inline u64 delta_border_elements(const DeltaShape& s) {
  return u64{s.value_heads} * s.key_size * s.value_size;
}

template <class Forward, class Backward>
void run_delta_tiles(const DeltaShape& s, u32 tile_tokens, const StepLimits& steps, const DeltaTileArrays& a,
                     Forward forward, Backward backward) {
  const u32 tiles = static_cast<u32>(div_up(s.tokens, u64{tile_tokens}));
  const u64 border = delta_border_elements(s);
  const auto at = [&](auto x, u64 row, u32 columns) { return x.at(row * columns); };
  bool accumulate = false;
  for (u32 sequence = 0; sequence < s.sequences; ++sequence) {
    const auto shape_of = [&](u32 t) {
      DeltaShape tile = s;
      tile.sequences = 1, tile.first_token = t * tile_tokens;
      tile.tokens = std::min(tile_tokens, s.tokens - tile.first_token), tile.goes_on = t + 1 < tiles;
      return tile;
    };
    for (u32 t = 0; t < tiles; ++t) {
      const DeltaShape tile = shape_of(t);
      const u64 row = u64{sequence} * s.tokens + tile.first_token;
      forward(GatedDelta{.shape = tile,
                         .qkv = at(a.qkv, row, s.channels()),
                         .projected = at(a.projected, row, s.columns()),
                         .a_log = a.a_log,
                         .dt_bias = a.dt_bias,
                         .starts = a.starts != nullptr ? a.starts + row : nullptr,
                         .out = at(a.out, row, s.value_columns()),
                         .skip = a.skip,
                         .steps = steps,
                         .state_before = t > 0 ? a.borders + t * border : nullptr,
                         .state_after = tile.goes_on ? a.borders + (t + 1) * border : nullptr});
    }
    for (u32 t = tiles; t-- > 0;) {
      const DeltaShape tile = shape_of(t);
      const u64 row = u64{sequence} * s.tokens + tile.first_token;
      backward(GatedDeltaBackward{.shape = tile,
                                  .qkv = at(a.qkv, row, s.channels()),
                                  .projected = at(a.projected, row, s.columns()),
                                  .a_log = a.a_log,
                                  .dt_bias = a.dt_bias,
                                  .skip = a.skip,
                                  .steps = steps,
                                  .starts = a.starts != nullptr ? a.starts + row : nullptr,
                                  .dout = at(a.dout, row, s.value_columns()),
                                  .dqkv = at(a.dqkv, row, s.channels()),
                                  .dprojected = at(a.dprojected, row, s.columns()),
                                  .da_log = a.da_log,
                                  .ddt_bias = a.ddt_bias,
                                  .dskip = a.dskip,
                                  .accumulate = accumulate,
                                  .partials = a.partials,
                                  .states = a.states,
                                  .state_before = t > 0 ? a.borders + t * border : nullptr,
                                  .dstate_after = tile.goes_on ? a.gradients + (t + 1) % 2 * border : nullptr,
                                  .dstate_before = t > 0 ? a.gradients + t % 2 * border : nullptr});
      accumulate = true;
    }
  }
}

}  // namespace tidepool::test
