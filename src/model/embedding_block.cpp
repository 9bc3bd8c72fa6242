#include "model/block_calls.h"

namespace tidepool {
namespace {

enum Windows : u32 { wte, wpe };
constexpr u32 only_tensor = 0;

}  // namespace

void embedding_forward(const BlockContext& c, const BlockForward& f) {
  c.kernels.embedding({.sequences = c.graph.batch.sequences,
                       .tokens_per_sequence = c.graph.batch.tokens,
                       .columns = c.graph.config.n_embd,
                       .tokens = f.tokens,
                       .wte = params_of(c, f.windows, wte)[only_tensor],
                       .wpe = params_of(c, f.windows, wpe)[only_tensor],
                       .out = f.output,
                       .dropout = dropout_of(c, DropoutSite::embedding, c.graph.config.embd_pdrop)});
}

void embedding_backward(const BlockContext& c, const BlockBackward& b) {
  const Gpt2Config& config = c.graph.config;
  const EmbeddingBackwardWorkspace workspace(c.graph, b.workspace);
  const Dropout dropout = dropout_of(c, DropoutSite::embedding, config.embd_pdrop);
  // Nobody reads the gradient after the first block, so it is the place for its own dropped form.
  if (dropout.on()) c.kernels.dropout(dropout, b.grad, b.grad, u64{rows_of(c)} * config.n_embd);
  c.kernels.embedding_backward({.sequences = c.graph.batch.sequences,
                                .tokens_per_sequence = c.graph.batch.tokens,
                                .columns = config.n_embd,
                                .vocabulary = config.vocab_size,
                                .positions = config.n_positions,
                                .tokens = b.tokens,
                                .dout = b.grad,
                                .dwte = gradients_of(c, b, wte)[only_tensor],
                                .dwpe = gradients_of(c, b, wpe)[only_tensor],
                                .accumulate = b.accumulate,
                                .order = workspace.order});
}

}  // namespace tidepool
