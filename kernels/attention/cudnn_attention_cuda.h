// Attention by cuDNN behind attention()'s contract, for the one shape that a run has, where it pays
// (cudnn_attention_slices.h). Its plans are made and tried when it is made (cudnn_attention_trial_cuda.h):
// kernels are then compiled and on the device, and what is left to ours is known.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention/cudnn_attention_slices.h"
#include "kernels/cuda/cudnn_graph.h"

namespace tidepool::cuda {

// Of one device: the one that is set when it is made and when it is used. One caller at a time.
class CudnnAttention {
 public:
  struct Parts {
    std::unique_ptr<cudnn::Library> library;
    AttentionToCome shape;
    cudaStream_t stream = nullptr;
    std::span<std::byte> workspace;  // device memory that forward may write, aligned to 256. Outlives this
    std::span<std::byte> trial;      // device memory for nobody else until create() returns; overwritten
  };
  // Error: the library fails on this device. Up to seconds.
  static Result<std::unique_ptr<CudnnAttention>> create(Parts);
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;
  ~CudnnAttention();

  // False, and nothing done, where ours are to be used: for other shapes, documents, dropout, and where the
  // library has no plan. Whatever the data, the answer is that of all operations of these arguments. Returns
  // at once. Error: the library fails. What CUDA itself has to say of the stream is not asked here.
  Result<bool> forward(const Attention&);
  Result<bool> backward(const AttentionBackward&);

  // "cuDNN 9.19.0", and what of it is not done by it, and why.
  std::string describe() const;

 private:
  // Forward or backward of the batch: a plan for a slice, and for the rests that slices leave.
  struct Pass {
    AttentionSlice slice;  // without sequences: not by the library
    std::map<AttentionSlice, std::unique_ptr<cudnn::Plan>> plans;
    std::string why_not{};

    void give_up(std::string why) {
      plans.clear();
      slice = {};
      why_not = std::move(why);
    }
  };
  CudnnAttention(Parts parts, cudnn::DeviceProperties device, cudnnContext* context)
      : parts_(std::move(parts)), device_(std::move(device)), context_(context) {}
  const AttentionShape& shape() const { return parts_.shape.shape; }
  Result<std::unique_ptr<cudnn::Plan>> make_plan(const AttentionSlice&, bool is_backward,
                                                 std::string& why_not) const;
  Result<void> make_plans(Pass&, const AttentionSlice&, bool is_backward);
  Result<void> try_plans();
  template <class Operation, class Run>
  Result<bool> go_over(const Pass&, const Operation&, Run);
  Result<void> run_forward(const Attention&, const AttentionSlice& at, const AttentionSlice& slice);
  Result<void> run_backward(const AttentionBackward&, const AttentionSlice& at, const AttentionSlice& slice);

  const Parts parts_;  // the library first: all others are its
  const cudnn::DeviceProperties device_;
  cudnnContext* const context_;
  Pass forward_, backward_;
};

}  // namespace tidepool::cuda
