// Inputs of layers beside the residual stream (LayerInputs): the blocks that make them, and what a layer does
// with its own. A second embedding gives each token P columns for each layer, a; a product of the residual
// stream's first values, normalised over each P columns, is added, c: the inputs are (a + c) / sqrt(2). A
// layer adds norm(projection(gelu(gate(x)) inputs)) to its residual stream x.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::layer_inputs {

// The second embedding. RETURNS: its block; `window`: number of its window, as of the next.
Block embedding_block(const ModelGraph&, u32 window);
void embedding_forward(const BlockContext&, const BlockForward&);
void embedding_backward(const BlockContext&, const BlockBackward&);

// The block that adds the product of the residual stream.
Block product_block(const ModelGraph&, u32 window);
void product_forward(const BlockContext&, const BlockForward&);
void product_backward(const BlockContext&, const BlockBackward&);

struct Sum {
  ConstValues inputs;    // [R, layers, P]
  ConstValues residual;  // [R, H]
  Values values;         // [R, 2 P]: written, for backward
  Branch branch;
  const InputsScratch& scratch;
  Values y;  // [R, H]; may be the residual
};
void add_to_stream(const Layer&, const Sum&);
// Backward of that sum: b.grad becomes the gradient of the residual stream before it, and the layer's columns
// of b.layer_inputs_grad are written.
void gradients_of_sum(const LayerGradients&);

}  // namespace tidepool::layer_inputs
