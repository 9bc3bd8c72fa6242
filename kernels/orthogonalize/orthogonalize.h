// orthogonalize() replaces a matrix by one that is nearly orthogonal, with singular values from about 0.7 to
// 1.2: Newton-Schulz steps of degree five, as torch.optim.Muon has them (Jordan et al., "Muon: An optimizer
// for hidden layers in neural networks", 2024).
//
//   X = u / max(|u|, epsilon)
//   each step: G = X X^T, X = a X + (b G + c G G) X
//
// A matrix with more rows than columns takes G = X^T X, and multiplies from the right. Every X and G is
// rounded to 16 bits; products have sums in fp32.
#pragma once

#include "kernels/kernels.h"
#include "tidepool/tensor_matrices.h"

namespace tidepool {

struct Orthogonalize {
  MatrixPlace matrix;
  Values values;    // array with the matrix, in place
  float scale = 1;  // of the result
  u32 steps = 5;
  // Holds X and G while they are multiplied: bf16, or fp32 for devices that multiply in fp32. The numbers are
  // those of bf16 all the same.
  Precision products = Precision::fp32;
  std::byte* workspace = nullptr;  // [orthogonalize_workspace()], aligned to 256 bytes
};

// Bytes of workspace for a matrix.
Bytes orthogonalize_workspace(const MatrixPlace&, Precision products);

void orthogonalize(Kernels&, const Orthogonalize&);

}  // namespace tidepool
