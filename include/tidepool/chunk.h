// Chunks: the unit that moves between tiers, is stored and is checksummed.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class Precision : u8 { fp32, bf16, fp16 };
inline constexpr u32 precision_count = 3;

constexpr std::string_view name(Precision precision) {
  constexpr std::array<std::string_view, precision_count> names = {"fp32", "bf16", "fp16"};
  return names[static_cast<u32>(precision)];
}
// Bytes per element. With 2, the gradient is rounded from its accumulator into a chunk of its own.
constexpr u64 value_bytes(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

// The slots of training's state that a chunk set can have beside its parameters (StateSlots).
inline constexpr u32 state_slots_max = 8;

enum class Kind : u8 {
  param,
  grad,        // finished gradient at transfer precision; in fp32 the accumulator is the gradient
  grad_accum,  // fp32, one per use of a window; with several replicas also one per use and replica
  grad_part,   // fp32, of several nodes: another node's grad_accum, by use and node
  state,       // slot 0 of the state; slot i is state_kind(i)
  // Streams: content that blocks hand to blocks, one chunk per stream and micro-batch (Stream).
  activation = state + state_slots_max,  // residual stream between two layers: a block's input
  post_attention,                        // residual stream between a layer's attention and its experts
  normed,                                // input of a layer's experts and of its router
  routes,                                // each token's experts and their weights
  expert_sum,                            // fp32 sum of the experts' outputs, over the groups so far
  router_sums,                           // by layer: each expert's tokens, and sums for the router's losses
  branches,      // outputs of a layer's dense MLP and of its experts beside it, which the layer's end adds
  shared_keys,   // k and v of a layer, which later layers read too
  layer_inputs,  // what each layer reads beside the residual stream, of all layers
  // Gradients of streams.
  activation_grad,  // of the residual stream, updated in place
  normed_grad,      // fp32, summed over the groups of experts
  routes_grad,      // of the experts' weights
  branches_grad,
  shared_keys_grad,
  layer_inputs_grad,
  kept,  // inside of a block, kept instead of recomputed; one per (block, micro-batch)
  past,  // what the pieces of a micro-batch hand to later pieces within a block's pass (Block::past)
  workspace,
  batch,    // the arrays of BatchShape::arrays(); one per micro-batch of a sweep
  rows,     // rows of a table that a micro-batch's tokens look up, and their count (Lookup)
  scalars,  // loss, norm partials, clip factor, flags: values that ops read and write
};
inline constexpr u32 kind_count = 25 + state_slots_max;

constexpr Kind state_kind(u32 slot) { return static_cast<Kind>(static_cast<u32>(Kind::state) + slot); }
constexpr bool is_slot(Kind kind) { return kind >= Kind::state && kind < Kind::activation; }
// REQUIRES: is_slot(kind).
constexpr u32 slot_of(Kind kind) { return static_cast<u32>(kind) - static_cast<u32>(Kind::state); }

// StateSlots::name() has the names of slots.
constexpr std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 25> names = {"param",
                                                      "grad",
                                                      "grad_accum",
                                                      "grad_part",
                                                      "activation",
                                                      "post_attention",
                                                      "normed",
                                                      "routes",
                                                      "expert_sum",
                                                      "router_sums",
                                                      "branches",
                                                      "shared_keys",
                                                      "layer_inputs",
                                                      "activation_grad",
                                                      "normed_grad",
                                                      "routes_grad",
                                                      "branches_grad",
                                                      "shared_keys_grad",
                                                      "layer_inputs_grad",
                                                      "kept",
                                                      "past",
                                                      "workspace",
                                                      "batch",
                                                      "rows",
                                                      "scalars"};
  if (is_slot(kind)) return "state";
  const u32 number = static_cast<u32>(kind);
  return names[kind < Kind::state ? number : number - state_slots_max];
}
constexpr bool is_gradient_stream(Kind kind) {
  return kind >= Kind::activation_grad && kind <= Kind::layer_inputs_grad;
}
constexpr bool is_stream(Kind kind) { return kind >= Kind::activation && kind <= Kind::layer_inputs_grad; }

// Bytes of an array of values: parameters, activations.
constexpr u64 values_bytes(u64 elements, Precision precision) { return elements * value_bytes(precision); }

// Kinds that outlive a step.
constexpr bool is_persistent(Kind kind) { return kind == Kind::param || is_slot(kind); }
// Kinds that an update writes without reading the old content: fp16's `param`, rounded from `master`. From
// its last use in a step until the update nothing needs it, so its bytes may hold something else
// (docs/decisions/0018).
constexpr bool made_by_update(Kind kind, Precision precision) {
  return kind == Kind::param && precision == Precision::fp16;
}
// Cuts fall on multiples of this many elements or more (StateSlots::cut_alignment()): arrays of 2 bytes an
// element fill whole 4 KiB pages.
inline constexpr u64 cut_alignment_elements = 2048;

// The norm of a gradient is made of partial sums, one per granule of a window.
inline constexpr u64 norm_granule_elements = 64 * kib;

// Checksums are made per block of elements (so that an update's tiles make them on the way) and then
// combined. 16 Ki elements of every kind (16 bytes each at most) are 256 KiB: they stay in a 1 MiB L2.
inline constexpr u64 checksum_block_elements = 16 * kib;

enum class Access : u8 { read, write, read_write };
constexpr bool reads(Access a) { return a != Access::write; }
constexpr bool writes(Access a) { return a != Access::read; }

// A chunk is a cut of a window (kinds with parameters), or a whole activation, batch, ...
struct Chunk {
  Kind kind{};
  u32 window = none;  // kinds with parameters only
  u32 cut = none;     // number of the cut in the window
  u16 owner = 0;      // kinds with parameters: the node that updates the cut
  u8 rule = 0;        // kinds with parameters: the number of the rule that updates the cut
  // grad_accum: number of the use, then uses + use * replicas + replica. Streams, kept, batch, rows:
  // micro-batch within the sweep, times replicas, plus the replica; of streams and kept, of micro-batches
  // that are cut: piece within the sweep. past, workspace: the device. scalars: the device, then devices +
  // node for those of other nodes. grad_part: use * nodes + node.
  u32 instance = 0;
  u32 stream = none;      // streams only
  u32 block = none;       // streams: Stream::block. kept: the block whose inside it is
  u64 element_begin = 0;  // from the window's start, along the kind's axis (StateSlots::axis())
  u64 elements = 0;
  Bytes bytes{};  // a multiple of frame_alignment; 0: a slot that the cut lacks

  bool operator==(const Chunk&) const = default;
};

// True if the chunk outlives a step. Checkpoints hold it, and the planner chooses a home for it.
constexpr bool is_persistent(const Chunk& chunk) {
  return is_persistent(chunk.kind) && chunk.bytes.value > 0;
}

}  // namespace tidepool
