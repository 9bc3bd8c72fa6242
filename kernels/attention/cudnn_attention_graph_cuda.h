// Builds attention as graphs of cuDNN's operations. cuDNN's engines recognise attention by the graph's form:
// the sequence of operations and the types of intermediate results (NVIDIA's cuDNN documentation,
// "Attention").
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
  scale,           // a number in host memory: 1 / sqrt(D)
  minus_infinity,  // a number in host memory
  one,             // a number in host memory
};

// Graphs of one slice. `shape` is that of the whole batch, whose strides the arrays have.
cudnn::Graph cudnn_attention_forward(const cudnn::Library&, const AttentionShape&, const AttentionSlice&,
                                     Precision);
cudnn::Graph cudnn_attention_backward(const cudnn::Library&, const AttentionShape&, const AttentionSlice&,
                                      Precision);

}  // namespace tidepool::cuda
