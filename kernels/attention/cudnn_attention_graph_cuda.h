// Attention as graphs of cuDNN's operations. Its engines know them by their shape: which operation follows
// which, and in what type results pass between them (NVIDIA's cuDNN documentation, "Attention").
#pragma once

#include "kernels/attention/cudnn_attention_slices.h"
#include "kernels/cuda/cudnn_graph.h"

namespace tidepool::cuda {

// Arrays of a plan, by name.
enum class AttentionUid : i64 {
  q = 1,
  k,
  v,
  out,
  lse,
  dout,
  dq,
  dk,
  dv,
  softmax_sum,
  scale,           // a number: 1 / sqrt(D)
  minus_infinity,  // a number
  one,             // a number
};

// A slice of attention: `shape` is that of the whole, whose strides its arrays have.
cudnn::Graph cudnn_attention_forward(const cudnn::Library&, const AttentionShape&, const AttentionSlice&,
                                     Precision);
cudnn::Graph cudnn_attention_backward(const cudnn::Library&, const AttentionShape&, const AttentionSlice&,
                                      Precision);

}  // namespace tidepool::cuda
