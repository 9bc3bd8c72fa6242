// One tile of a matrix product or of a weight gradient, computed by one worker. Grouped products are made of
// the same tiles.
#pragma once

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/scratch.h"

namespace tidepool {

// A tile of y, epilogue included. REQUIRES: check_operands() accepts the product.
void matmul_tile(const Matmul&, const Tile&, TileScratch&);

// A tile of dw, which has the shape weight_gradient_rows() x weight_gradient_columns(). Without dbias.
void weight_gradient_tile(const WeightGradient&, const Tile&, TileScratch&);
constexpr u32 weight_gradient_rows(const WeightGradient& op) { return op.transposed ? op.n : op.k; }
constexpr u32 weight_gradient_columns(const WeightGradient& op) { return op.transposed ? op.k : op.n; }

}  // namespace tidepool
