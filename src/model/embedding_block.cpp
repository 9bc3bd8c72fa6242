#include <cmath>

#include "kernels/gradient/gradient.h"
#include "model/row_tiles.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

enum EmbeddingWindows : u32 { wte, wpe };  // wpe: only in models with learned positions
constexpr u32 only_tensor = 0;

// Factor on the embedding: the config's, or the root of the width, rounded to the weights' precision as in
// transformers.
float scale_of(const ModelGraph& g) {
  if (!style(g.config.family).scaled_embedding) return static_cast<float>(g.config.factors.embedding);
  return rounded_to_params(g, std::sqrt(static_cast<float>(g.config.width)));
}

// NEFTune (Jain et al., arXiv:2310.05914), as transformers has it: the longer a sequence, the less.
UniformNoise noise_of_embedding(const BlockContext& c) {
  const double numbers = static_cast<double>(c.graph.batch.tokens) * c.graph.config.width;
  // A factor of the config comes behind the noise, and a family's own before it.
  const double factor = style(c.graph.config.family).scaled_embedding ? 1 : c.graph.config.factors.embedding;
  const double magnitude = c.training ? factor * c.graph.neftune_alpha / std::sqrt(numbers) : 0;
  return {.magnitude = static_cast<float>(magnitude), .key = dropout_of(c, DropoutSite::noise, 0)};
}

bool has_positions(const BlockContext& c) { return block_of(c).windows.size() > wpe; }

// Rows of a tile are tokens of one sequence, which begins with the tile's first.
u32 sequences_of(const BlockContext& c) { return c.tile.rows != 0 ? 1 : c.graph.batch.sequences; }
u32 tokens_of(const BlockContext& c) { return c.tile.rows != 0 ? c.tile.rows : c.graph.batch.tokens; }
u64 first_position(const BlockContext& c) { return u64{c.tile.first_token} * c.graph.config.width; }

}  // namespace

float rounded_to_params(const ModelGraph& g, float x) {
  switch (g.precision) {
    case Precision::fp32:
      return x;
    case Precision::bf16:
      return float_from_bf16(bf16_from_float(x));
    case Precision::fp16:
      return float_from_fp16(fp16_from_float(x));
  }
  return x;
}

namespace {

void embed_tile(const BlockContext& c, const BlockForward& f) {
  c.kernels.embedding(
      {.sequences = sequences_of(c),
       .tokens_per_sequence = tokens_of(c),
       .columns = c.graph.config.width,
       .tokens = f.batch.tokens,
       .wte = params_of(c, f.windows, wte)[only_tensor],
       .scale = scale_of(c.graph),
       .wpe = has_positions(c) ? params_of(c, f.windows, wpe)[only_tensor].at(first_position(c)) : Param{},
       .out = f.output,
       .noise = noise_of_embedding(c),
       .dropout = dropout_of(c, DropoutSite::embedding, c.graph.config.embedding_dropout)});
}

void embed_tile_backward(const BlockContext& c, const BlockBackward& b) {
  const ModelConfig& config = c.graph.config;
  const EmbeddingBackwardWorkspace workspace(c.graph, b.workspace);
  const Dropout dropout = dropout_of(c, DropoutSite::embedding, config.embedding_dropout);
  // In place: the embedding is the last block of backward, so no later op reads this gradient.
  if (dropout.on()) c.kernels.dropout(dropout, b.grad, b.grad, u64{rows_of(c)} * config.width);
  float* const dwte = gradients_of(c, b, wte)[only_tensor];
  float* const dwpe = has_positions(c) ? gradients_of(c, b, wpe)[only_tensor] : nullptr;
  if (c.tile.first_token != 0 && !b.accumulate) {  // positions are not all behind the tile's first
    c.kernels.zero(dwte, u64{config.vocab_size} * config.width);
    if (dwpe != nullptr) c.kernels.zero(dwpe, u64{config.positions} * config.width);
  }
  c.kernels.embedding_backward({.sequences = sequences_of(c),
                                .tokens_per_sequence = tokens_of(c),
                                .columns = config.width,
                                .vocabulary = config.vocab_size,
                                .positions = config.positions - c.tile.first_token,
                                .tokens = b.batch.tokens,
                                .dout = b.grad,
                                .scale = scale_of(c.graph),
                                .dwte = dwte,
                                .dwpe = dwpe == nullptr ? nullptr : dwpe + first_position(c),
                                .accumulate = b.accumulate || c.tile.first_token != 0,
                                .order = workspace.order});
}

}  // namespace

void embedding_forward(const BlockContext& c, const BlockForward& f) { for_tiles(c, f, embed_tile); }
void embedding_backward(const BlockContext& c, const BlockBackward& b) {
  for_tiles(c, b, embed_tile_backward);
}

}  // namespace tidepool
