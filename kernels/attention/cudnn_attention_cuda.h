// CudnnAttention computes attention with cuDNN behind attention()'s contract, for a run's one shape, if cuDNN
// is faster (cudnn_attention_slices.h). Its plans are compiled, loaded and tried at construction
// (cudnn_attention_trial_cuda.h), so it is then known which operations are left to our own kernels.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention/cudnn_attention_slices.h"
#include "kernels/cuda/cudnn_graph.h"

namespace tidepool::cuda {

// REQUIRES: the device that was current at construction is current at every call.
// THREADS: one caller at a time.
class CudnnAttention {
 public:
  struct Parts {
    std::unique_ptr<cudnn::Library> library;
    AttentionToCome shape;
    cudaStream_t stream = nullptr;
    std::span<std::byte> workspace;  // device memory for forward to overwrite, aligned to 256. Outlives this
    std::span<std::byte> trial;      // device memory for exclusive use until create() returns; overwritten
  };
  // Takes up to seconds.
  // Errors: the library fails on this device.
  static Result<std::unique_ptr<CudnnAttention>> create(Parts);
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;
  ~CudnnAttention();

  // Return at once.
  // RETURNS: false, without doing anything, if our own kernels are to be used: other shapes, documents,
  // dropout, or no plan of the library. The answer depends on shapes and options, never on data.
  // Errors: the library fails. CUDA's errors of the stream are not asked for here.
  Result<bool> forward(const Attention&);
  Result<bool> backward(const AttentionBackward&);

  // RETURNS: "cuDNN 9.19.0", and which parts it does not compute, and why.
  std::string describe() const;

 private:
  // Forward or backward of the batch: a plan for a full slice, and plans for the smaller slices at the ends.
  struct Pass {
    AttentionSlice slice;  // without sequences: the library is not used
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

  const Parts parts_;  // first, because the members below refer to the library
  const cudnn::DeviceProperties device_;
  cudnnContext* const context_;
  Pass forward_, backward_;
};

}  // namespace tidepool::cuda
