// Attention by cuDNN behind attention()'s contract, for the shapes where it pays (cudnn_attention_slices.h).
#pragma once

#include <map>
#include <memory>
#include <span>

#include "kernels/attention/cudnn_attention_slices.h"
#include "kernels/cuda/cudnn_graph.h"

namespace tidepool::cuda {

// Of one device: the one that is set when it is made and when it is used. One caller at a time.
class CudnnAttention {
 public:
  // `workspace`: device memory that forward may write in the stream's order, aligned to 256. It outlives
  // this. Error: the library cannot start on this device.
  static Result<std::unique_ptr<CudnnAttention>> create(std::unique_ptr<cudnn::Library>, int capability,
                                                        std::span<std::byte> workspace);
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;
  ~CudnnAttention();

  // Compiles what a shape needs, up to seconds; else its first use does. Errors: as forward's.
  Result<void> prepare(const AttentionShape&, Precision, Bytes scratch);

  // Both: false, and nothing done, where ours are to be used: whatever the operation's data, the answer
  // depends on its shape, its scratch's size and on what device and library these are. Returns at once.
  // Error: the library fails. What CUDA itself has to say of the stream is not asked here.
  Result<bool> forward(const Attention&, cudaStream_t);
  Result<bool> backward(const AttentionBackward&, cudaStream_t);

 private:
  struct Key {
    bool is_backward;
    Precision precision;
    u32 tokens, heads, kv_heads, head_size;
    u32 slice_sequences, slice_kv_heads;
    auto operator<=>(const Key&) const = default;
  };
  CudnnAttention(std::unique_ptr<cudnn::Library> library, cudnn::DeviceProperties device,
                 cudnnContext* context, int capability, std::span<std::byte> workspace)
      : library_(std::move(library)),
        device_(std::move(device)),
        context_(context),
        capability_(capability),
        workspace_(workspace) {}
  // Null: the library has no plan for this, or one that wants more memory than slices were cut for.
  Result<const cudnn::Plan*> plan_for(const AttentionShape&, const AttentionSlice&, Precision,
                                      bool is_backward);
  // All plans that a pass over the batch uses. False: not one of them is missing.
  Result<bool> has_plans(const AttentionShape&, const AttentionSlice&, Precision, bool is_backward);
  Result<void> run_forward(const Attention&, const AttentionSlice& at, const AttentionSlice& slice);
  Result<void> run_backward(const AttentionBackward&, const AttentionSlice& at, const AttentionSlice& slice);

  std::unique_ptr<cudnn::Library> library_;  // first: all others are its
  cudnn::DeviceProperties device_;
  cudnnContext* context_;
  int capability_;
  std::span<std::byte> workspace_;
  std::map<Key, std::unique_ptr<cudnn::Plan>> plans_;
};

}  // namespace tidepool::cuda
