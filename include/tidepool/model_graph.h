// ModelGraph is the model as the planner sees it: blocks in order, the windows they read, and their costs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/types.h"
#include "tidepool/batch_arrays.h"
#include "tidepool/expert_adapters.h"
#include "tidepool/kernel_cost.h"
#include "tidepool/lora.h"
#include "tidepool/model_config.h"
#include "tidepool/objective.h"
#include "tidepool/packing.h"
#include "tidepool/state_slot.h"
#include "tidepool/update_rule.h"

namespace tidepool {

// How a tensor's first values are drawn. log_uniform: the logarithm of a number from 0.01 to 16. log_number:
// the logarithm of the element's number, from 1 on.
enum class Init : u8 { normal, zeros, ones, uniform, log_uniform, log_number };

struct Tensor {
  std::string name;        // Hugging Face name, "h.0.attn.c_attn.weight"
  std::vector<u64> shape;  // row-major, as in the file: GPT-2 matrices are [in, out], the others' [out, in]
  // Elements from the window's start. A multiple of 64, unless one product reads this tensor together with
  // the tensor before it.
  u64 window_offset = 0;
  u64 elements = 0;
  // Place in memory tiers, in elements of the parameters' precision from the window's start. Differs from
  // window_offset and elements only in packed windows.
  u64 stored_offset = 0, stored_elements = 0;
  PackedMatrix packed;             // how it is stored; Packing::none: as numbers in the parameters' precision
  bool packed_transposed = false;  // `packed` is [out, in], and the tensor [in, out]
  bool weight_decay = false;       // matrices and embeddings; not biases and norms
  u8 rule = 0;                     // number of the rule that updates it (ModelGraph::rules)
  u32 number = 0;                  // by which the block's code knows it
  TensorKind kind = TensorKind::matrix;
  bool constant = false;  // its gradient is 0 and it does not decay, so no rule changes it
  bool in_out = false;    // `shape` of a matrix is [in, out]
  // A matrix that joins several, such as q, k and v: outputs of each. They stand one after the other, or
  // interleaved: of two, the first has the even outputs.
  std::vector<u64> joined;
  bool interleaved = false;
  Init init = Init::zeros;
  double init_std = 0.0;    // Init::normal
  double init_bound = 0.0;  // Init::uniform: from -bound to bound

  bool operator==(const Tensor&) const = default;
};

// Window holds parameters that lie side by side on the device. It is cut into chunk sets.
struct Window {
  std::string name;
  std::vector<Tensor> tensors;  // by place; tensors of one rule stand together
  u64 elements = 0;             // stored, padded to the alignment of cuts; padding is zero and stays zero
  // Elements after unpacking, which is what a block's code reads; 0: the window is not packed. A packed
  // window is frozen.
  u64 unpacked_elements = 0;
  u64 parameters = 0;  // without padding
  // Experts of a layer are in one window or in several: the name of them all, which no grouping changes, and
  // the place of this window among them, in elements. Empty: the window stands alone.
  std::string group;
  u64 group_begin = 0;
  // If false, the window is frozen: parameters only, no gradient, moments, master or update. Its homes are
  // never written to after a run has begun.
  bool trainable = true;
  bool adapter = false;  // its tensors are read from and saved to an adapter's file, not the model's

  const Tensor& tensor(u64 number) const {
    if (tensors[number].number == number) return tensors[number];
    const auto at = std::ranges::find(tensors, number, &Tensor::number);
    CHECK(at != tensors.end(), number);
    return *at;
  }
  bool operator==(const Window&) const = default;
};

// A layer with experts is several blocks: its attention with the router, then groups of experts, and if these
// are a branch beside a dense MLP, an end that adds both. A model whose layers have inputs of their own has a
// second embedding for these, and a block that completes them.
enum class BlockKind : u8 { embedding, layer_inputs, layer, attention, experts, layer_end, head };

// Stream is content that blocks hand to blocks within one micro-batch. A block that writes it without reading
// it begins new content; blocks that read and write it change it in place; the last user ends it.
struct Stream {
  Kind kind{};
  Bytes bytes{};       // of one micro-batch, or a piece of it
  u32 block = none;    // the block that it enters, if it is made once in a micro-batch; names it
  bool whole = false;  // of a micro-batch, not of a piece: each piece goes on where the one before has ended

  bool operator==(const Stream&) const = default;
};
struct StreamUse {
  u32 stream = 0;
  Access access{};

  bool operator==(const StreamUse&) const = default;
};

struct Block {
  BlockKind kind{};
  std::string name;  // "embedding", "h.0" or "layers.0", "head"
  u32 layer = none;
  u32 group = none;          // experts: number of the group within its layer
  std::vector<u32> windows;  // read by forward and backward, in the order that the block's code expects
  // Streams that forward and backward use, in the order of an op's operands: gradients come last.
  std::vector<StreamUse> forward_streams, backward_streams;
  Bytes kept{};  // inside of one micro-batch, or a piece of it, if it is kept instead of recomputed
  Bytes forward_workspace{};
  Bytes backward_workspace{};  // with recompute; without recompute it is never more
  Bytes unpacked{};            // first part of both workspaces: packed windows, unpacked
  // If a micro-batch is cut into tiles: what a layer's tiles hand to later tiles of their sequence, of one
  // micro-batch, and behind it the gradients of that. 0: nothing. Before the backward of its first piece, a
  // block with a past makes it again: an op of its own for each piece (OpKind::recall).
  Bytes past{}, past_grad{};
  // Kernels of one micro-batch, in order. The flops below are their sums.
  std::vector<KernelCost> forward_kernels;
  std::vector<KernelCost> backward_kernels;   // without recompute
  std::vector<KernelCost> recompute_kernels;  // run by backward in addition, if the inside was not kept
  std::vector<KernelCost> recall_kernels;     // run before backward, with a past
  // Shares of a micro-batch's time, by piece, all together 1; empty: there is one piece.
  std::vector<double> piece_shares;
  u64 forward_flops = 0;
  u64 backward_flops = 0;
  u64 recompute_flops = 0;
  u64 recall_flops = 0;

  double share_of(u32 piece) const { return piece_shares.empty() ? 1 : piece_shares[piece]; }

  bool operator==(const Block&) const = default;
};

// Tokens of a tile if a config does not say. A tile's product reads its weights once. With R rows it computes
// R operations for each byte of a weight of 2 bytes, and a GPU of 1000 Tflop/s and 3 TB/s needs 330 of them.
// Attention needs more: its backward adds to the gradients of all earlier keys once for each tile.
constexpr u32 default_tile_tokens(bool gpu) { return gpu ? 8192 : 1024; }

// Most tiles of a micro-batch.
inline constexpr u32 row_tiles_max = 1 << 15;
// RowTile is a run of rows of a micro-batch that a block computes at a time: all of them, or tokens of one
// sequence.
struct RowTile {
  u32 number = 0;       // in the micro-batch
  u32 sequence = 0;     // that of its first row
  u32 first_token = 0;  // its first row's place in the sequence
  u64 first_row = 0;
  u32 rows = 0;  // 0: all of the micro-batch

  bool operator==(const RowTile&) const = default;
};

// RowPiece is a run of tiles that one op computes.
struct RowPiece {
  u32 number = 0;
  u32 first_tile = 0, end_tile = 0;
  u64 first_row = 0, rows = 0;
};

// Every micro-batch has this shape; empty places have padding_target.
struct BatchShape {
  u32 sequences = 1;  // B
  u32 tokens = 0;     // T, per sequence
  // True if a sequence may hold several documents. Attention does not cross documents, and positions begin
  // anew in each document. Then a batch has an array of their beginnings, and every layer reads it.
  bool packed = false;
  bool holes = false;  // sequences may share prompts (KeyHole); packed batches only
  // Sequences that are longer are computed in tiles of so many tokens; 0: whole. Sums over rows are sums of
  // tiles, so bits depend on it. build_model() makes it 0 for objectives of units of sequences.
  u32 tile_tokens = 0;
  u32 piece_tiles = 0;  // tiles of an op, on which no bit depends; 0: all of a micro-batch
  // The following are build_model()'s.
  bool second_table = false;  // two embeddings read tokens (LayerInputs), each its own array
  bool units = false;         // documents are units of sequences
  bool values = false, references = false, old_logps = false;
  u32 distribution_numbers = 0;  // of a place; 0: no teacher's distributions

  u64 rows() const { return u64{sequences} * tokens; }
  bool tiled() const { return tile_tokens != 0 && tokens > tile_tokens; }
  u32 tiles_of_sequence() const { return tiled() ? static_cast<u32>(div_up(tokens, tile_tokens)) : 1; }
  u32 tiles() const { return tiled() ? sequences * tiles_of_sequence() : 1; }
  // Most rows of a tile.
  u64 tile_rows() const { return tiled() ? tile_tokens : rows(); }
  RowTile tile(u32 number) const {
    if (!tiled()) return {.rows = static_cast<u32>(rows())};
    const u32 sequence = number / tiles_of_sequence();
    const u32 first = number % tiles_of_sequence() * tile_tokens;
    return {.number = number,
            .sequence = sequence,
            .first_token = first,
            .first_row = u64{sequence} * tokens + first,
            .rows = std::min(tile_tokens, tokens - first)};
  }
  u32 tiles_of_piece() const { return piece_tiles == 0 ? tiles() : std::min(piece_tiles, tiles()); }
  u32 pieces() const { return static_cast<u32>(div_up(tiles(), tiles_of_piece())); }
  // Most rows of a piece.
  u64 piece_rows() const { return std::min(rows(), tiles_of_piece() * tile_rows()); }
  RowPiece piece(u32 number) const {
    const u32 begin = number * tiles_of_piece(), end = std::min(tiles(), begin + tiles_of_piece());
    const RowTile first = tile(begin), last = tile(end - 1);
    return {.number = number,
            .first_tile = begin,
            .end_tile = end,
            .first_row = first.first_row,
            .rows = last.first_row + last.rows - first.first_row};
  }
  BatchList arrays() const {
    BatchList list = {BatchArray::tokens, BatchArray::targets};
    if (packed) list.add(BatchArray::starts);
    if (holes) list.add(BatchArray::holes);
    if (second_table) list.add(BatchArray::table_tokens);
    if (units) list.add(BatchArray::sequences);
    if (values) list.add(BatchArray::values);
    if (references) list.add(BatchArray::references);
    if (old_logps) list.add(BatchArray::old_logps);
    if (distribution_numbers > 0) list.add_distributions(distribution_numbers);
    return list;
  }
  bool operator==(const BatchShape&) const = default;
};

// MatrixCost says what it takes to orthogonalize a matrix of this shape. All rules take as many steps.
struct MatrixCost {
  u32 rows = 0, columns = 0;
  Bytes workspace{};
  std::vector<KernelCost> kernels;

  bool operator==(const MatrixCost&) const = default;
};

struct ModelGraph {
  ModelConfig config;
  LoraConfig lora;
  Precision precision = Precision::fp32;  // precision of parameters
  // Precision of activations and their gradients: 16 bits if the device's matrix units want that.
  Precision activations = Precision::fp32;
  std::vector<UpdateRule> rules = {UpdateRule{}};  // the first is the one that a config names
  StateSlots state_slots;                          // of precision and rules
  BatchShape batch;
  ObjectiveRule objective;
  double neftune_alpha = 0;             // of the noise on embeddings; 0: none
  u32 experts_per_group = 0;            // the last group of a layer may have fewer; 0: no layer has experts
  std::vector<LayerAdapters> adapters;  // by layer; empty without LoRA or without experts
  std::vector<Window> windows;
  std::vector<Block> blocks;  // embedding, layers, head
  std::vector<Stream> streams;
  std::vector<MatrixCost> matrix_costs;  // of all shapes that streamed rules update
  Bytes boundary{};           // a piece's activation between blocks: [B, T, H] of a whole micro-batch
  Bytes batch_bytes{};        // all arrays of one micro-batch
  u64 parameters = 0;         // tied tensors counted once, no padding
  u64 active_parameters = 0;  // of these, used by one token: of E experts k
  // 6 N + 12 L H Q T, without recompute. Frozen parameters count 4 instead of 6: they have no weight
  // gradient. N are the active parameters without an embedding that is only looked up (untied).
  u64 flops_per_token = 0;

  // The optimizer that the config names, which is for tensors of no group.
  Optim optim() const {
    const auto at = std::ranges::find(rules, TensorSelection{}, &UpdateRule::tensors);
    CHECK(at != rules.end(), rules.size());
    return at->optim;
  }
  bool operator==(const ModelGraph&) const = default;
};

// RETURNS: the number of the rule that updates the tensor.
// REQUIRES: a rule is for it.
inline u8 rule_of(std::span<const UpdateRule> rules, const Tensor& tensor) {
  u64 rule = 0;
  while (rule < rules.size() && !rules[rule].is_for(tensor)) ++rule;
  CHECK(rule < rules.size(), rules.size());
  return static_cast<u8>(rule);
}

// The arrays that a kind of block reads. A router reads targets, which say where there is no token.
constexpr BatchList arrays_read(BlockKind kind) {
  switch (kind) {
    case BlockKind::embedding:
      return {BatchArray::tokens, BatchArray::table_tokens};
    case BlockKind::layer_inputs:
      return {};
    case BlockKind::layer:
      return {BatchArray::starts, BatchArray::holes};
    case BlockKind::attention:
      return {BatchArray::targets, BatchArray::starts, BatchArray::holes};
    case BlockKind::experts:
    case BlockKind::layer_end:
      return {};
    case BlockKind::head:
      return {BatchArray::targets};
  }
  return {};
}

// True if the block's ops take the batch.
inline bool reads_batch(const ModelGraph& graph, const Block& block) {
  return graph.batch.arrays().has_any(arrays_read(block.kind));
}

// RETURNS: true if the block's first window is only looked up: a frozen table that no other block reads.
inline bool only_looks_up(const ModelGraph& graph, u32 block) {
  if (graph.blocks[block].kind != BlockKind::embedding || graph.blocks[block].windows.empty()) return false;
  const u32 table = graph.blocks[block].windows[0];
  const Window& window = graph.windows[table];
  const bool plain =
      window.tensors.size() == 1 && window.tensors[0].shape.size() == 2 && window.unpacked_elements == 0;
  if (!plain || window.trainable) return false;
  for (u32 b = 0; b < graph.blocks.size(); ++b)
    if (b != block && std::ranges::count(graph.blocks[b].windows, table) != 0) return false;
  return true;
}

inline u64 table_elements(const ModelGraph& graph, u32 block) {
  return graph.windows[graph.blocks[block].windows[0]].elements;
}

// RETURNS: the embedding whose table is only looked up, of two the one with the larger table; none if the
// model has none.
inline u32 lookup_block(const ModelGraph& graph) {
  u32 found = none;
  for (u32 b = 0; b < graph.blocks.size() && graph.blocks[b].kind == BlockKind::embedding; ++b)
    if (only_looks_up(graph, b) && (found == none || table_elements(graph, b) > table_elements(graph, found)))
      found = b;
  return found;
}
inline u32 lookup_window(const ModelGraph& graph) {
  const u32 block = lookup_block(graph);
  return block == none ? none : graph.blocks[block].windows[0];
}

// True if a step changes any window. If false, only the forward of the model is planned, and its state has
// parameters only.
inline bool trains(const ModelGraph& graph) {
  for (const Window& window : graph.windows)
    if (window.trainable) return true;
  return graph.windows.empty();
}

// RETURNS: the most workspace that an op of the model takes.
inline Bytes largest_workspace(const ModelGraph& graph) {
  Bytes most{};
  for (const Block& block : graph.blocks)
    most = std::max({most, block.forward_workspace, trains(graph) ? block.backward_workspace : Bytes{0}});
  for (const MatrixCost& matrix : graph.matrix_costs)
    if (trains(graph)) most = std::max(most, matrix.workspace);
  return most;
}

// RETURNS: the most that an op of the model hands to later pieces.
inline Bytes largest_past(const ModelGraph& graph) {
  Bytes most{};
  for (const Block& block : graph.blocks)
    most = std::max(most, block.past + (trains(graph) ? block.past_grad : Bytes{0}));
  return most;
}

// RETURNS: parameters that a rule trains.
inline u64 parameters_of(const ModelGraph& graph, u32 rule) {
  u64 sum = 0;
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors)
      if (window.trainable && tensor.rule == rule) sum += tensor.elements;
  return sum;
}
// RETURNS: the rule that trains most parameters.
inline u32 main_rule(const ModelGraph& graph) {
  u32 most = 0;
  for (u32 rule = 1; rule < graph.rules.size(); ++rule)
    if (parameters_of(graph, rule) > parameters_of(graph, most)) most = rule;
  return most;
}

inline u64 trained_parameters(const ModelGraph& graph) {
  u64 sum = 0;
  for (const Window& window : graph.windows) sum += window.trainable ? window.parameters : 0;
  return sum;
}

inline bool trains(const ModelGraph& graph, const Block& block) {
  for (const u32 window : block.windows)
    if (graph.windows[window].trainable) return true;
  return false;
}

// Lowest block that a step's backward reaches: no block below it has anything to train. If the whole model is
// frozen, the head.
inline u32 last_backward_block(const ModelGraph& graph) {
  u32 block = 0;
  while (block + 1 < graph.blocks.size() && !trains(graph, graph.blocks[block])) ++block;
  return block;
}

}  // namespace tidepool
