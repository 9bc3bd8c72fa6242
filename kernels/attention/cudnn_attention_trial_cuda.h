// AttentionTrial runs cuDNN's plans before the first step and compares their results with our own kernels:
// plans of no version are trusted untested.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/cudnn_attention_slices.h"

namespace tidepool::cuda {

// Compares a slice's first and last sequence, up to 512 rows at either end of each. Waits for its stream, and
// pins some host memory meanwhile.
// REQUIRES: the trial's device is current.
class AttentionTrial {
 public:
  struct Parts {
    AttentionToCome to_come;
    cudaStream_t stream = nullptr;
    std::span<std::byte> room;  // device memory for exclusive use; overwritten
  };
  explicit AttentionTrial(const Parts& parts) : parts_(parts) {}
  AttentionTrial(const AttentionTrial&) = delete;
  ~AttentionTrial();

  using RunForward = std::function<Result<void>(const Attention&)>;
  using RunBackward = std::function<Result<void>(const AttentionBackward&)>;
  // `run` starts the library on a batch's first `slice`, twice.
  // RETURNS: empty if both results are correct and have the same bits; otherwise why the library must not be
  // used.
  // Errors: the device fails.
  Result<std::string> forward(const AttentionSlice&, const RunForward& run);
  Result<std::string> backward(const AttentionSlice&, const RunBackward& run);

 private:
  struct Arrays;
  // RETURNS: nullopt if the room is too small.
  std::optional<Arrays> cut(const AttentionSlice&, bool is_backward) const;
  Result<void> pin();
  Result<void> fill(Values, u64 elements) const;
  Result<void> download(const void* from, std::span<std::byte> to) const;
  // RETURNS: rows of one sequence of an array, on the host.
  Result<std::vector<float>> rows(ConstValues, u64 columns, u32 sequence) const;
  Result<std::vector<float>> logarithms(const float*, u64 heads, u32 sequence) const;
  Result<void> clear(void* array, u64 bytes) const;
  Result<std::string> gave_up(const Error& refused) const;
  Result<void> wait() const;

  const Parts parts_;
  std::span<std::byte> pinned_;  // staging between host and device
};

}  // namespace tidepool::cuda
