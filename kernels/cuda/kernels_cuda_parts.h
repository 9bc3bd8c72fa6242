// Every operation of kernels.h on a CUDA stream, side by side in the operations' folders (*_cuda.cu). All
// return at once. Pointers are device memory; contracts are those of the CPU's faces of the same names.
#pragma once

#include <cuda_runtime.h>

#include "kernels/dropout/dropout.h"
#include "kernels/layer_norm/layer_norm.h"

namespace tidepool {

void zero_cuda(float* y, u64 elements, cudaStream_t);
void layer_norm_cuda(const LayerNorm&, cudaStream_t);
void layer_norm_backward_cuda(const LayerNormBackward&, cudaStream_t);
void dropout_cuda(const Dropout&, ConstValues x, Values y, u64 elements, cudaStream_t);

// kernels/gelu/gelu.h on n elements: y = gelu(x), y may be x. dx = dy gelu'(x), and value = gelu(x) unless null;
// any of them may be the same array.
void gelu_cuda(ConstValues x, Values y, u64 n, cudaStream_t);
void gelu_backward_cuda(ConstValues x, ConstValues dy, Values dx, Values value, u64 n, cudaStream_t);

}  // namespace tidepool
