// AttentionTrial runs cuDNN's plans before the first step and compares them with our own kernels: no
// version's plans are taken on trust.
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

// Belongs to one device, which must be current. Waits for its stream, and pins some memory of the host
// meanwhile. Compares a slice's first and last sequence, of each up to 512 rows at either end.
class AttentionTrial {
 public:
  struct Parts {
    AttentionToCome to_come;
    cudaStream_t stream = nullptr;
    std::span<std::byte> room;  // device memory for nobody else meanwhile; overwritten
  };
  explicit AttentionTrial(const Parts& parts) : parts_(parts) {}
  AttentionTrial(const AttentionTrial&) = delete;
  ~AttentionTrial();

  using RunForward = std::function<Result<void>(const Attention&)>;
  using RunBackward = std::function<Result<void>(const AttentionBackward&)>;
  // `run` starts the library on a batch's first `slice`, twice. RETURNS: empty if the results are attention's
  // and the same bits both times, else why the library is not to be used. Error: the device fails.
  Result<std::string> forward(const AttentionSlice&, const RunForward& run);
  Result<std::string> backward(const AttentionSlice&, const RunBackward& run);

 private:
  struct Arrays;
  // None: the room is too small.
  std::optional<Arrays> cut(const AttentionSlice&, bool is_backward) const;
  Result<void> pin();
  Result<void> fill(Values, u64 elements) const;
  Result<void> download(const void* from, std::span<std::byte> to) const;
  // Rows of one sequence of an array, on the host.
  Result<std::vector<float>> rows(ConstValues, u64 columns, u32 sequence) const;
  Result<std::vector<float>> logarithms(const float*, u64 heads, u32 sequence) const;
  Result<void> clear(void* array, u64 bytes) const;
  Result<std::string> gave_up(const Error& refused) const;
  Result<void> wait() const;

  const Parts parts_;
  std::span<std::byte> pinned_;  // staging between host and device
};

}  // namespace tidepool::cuda
