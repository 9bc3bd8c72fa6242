// What moves between the GPUs of a run: NCCL calls, each one group on a stream of every device.
//
// A gather is one broadcast per owner. A reduction is not NCCL's: the order of its sums depends on how many
// devices there are and how they are wired. Devices send their parts to the owner, which adds them in order
// of device, so that several devices give the bits of one that accumulates (docs/decisions/0016).
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/cuda/nccl_library.h"
#include "executor/shared/collective_op.h"

namespace tidepool {

struct CollectivesOptions {
  struct Device {
    int index = 0;                 // as CUDA counts
    std::span<std::byte> staging;  // of its memory, for nobody else, aligned to 256 bytes
  };
  std::vector<Device> devices;
  Nanos patience{60'000'000'000};  // how long the first exchange may take
};

class Collectives {
 public:
  // Errors: no NCCL (ErrorKind::usage), and what it cannot start with. After an exchange of a few bytes on
  // every path, so that it takes what it takes before the first step.
  static Result<std::unique_ptr<Collectives>> create(CollectivesOptions);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  u32 devices() const { return static_cast<u32>(options_.devices.size()); }
  int index(u32 device) const { return options_.devices[device].index; }
  cudaStream_t stream(u32 device) const { return streams_[device]; }
  // "NCCL 2.19.3 between 2 GPUs, with 0.31 GiB of each beside memory.device": one line for people.
  const std::string& describe() const { return describe_; }

  // Hand an operation to every device's stream and return. One thread.
  Result<void> all_gather(std::span<const GatheredCuts>);
  Result<void> reduce_scatter(std::span<const ScatteredSum>);

  // What has gone wrong since, if anything. Any thread.
  Result<void> health() const;
  // Asks NCCL and the devices; ends everything if something is wrong. False from then on. Any thread.
  bool check();
  // What runs ends as it is, and what comes does nothing: a device that has failed does not come to an
  // exchange, and the others would wait for it for ever. Any thread.
  void abort();

 private:
  explicit Collectives(CollectivesOptions options) : options_(std::move(options)) {}
  Result<void> start();
  Result<void> first_exchange();
  Result<void> await_streams();
  Result<void> exchange(std::span<const ScatteredSum>, u64 begin);
  void add(std::span<const ScatteredSum>, u64 begin);
  float* staged(u32 owner, u32 from) const;
  void abort_locked();

  // Calls of one group: the first error counts, and the group is closed whatever comes.
  template <class Body>
  Result<void> grouped(const Body& body);

  const CollectivesOptions options_;
  std::unique_ptr<NcclLibrary> nccl_;
  std::vector<cudaStream_t> streams_;
  u64 slice_elements_ = 0;  // of a sum, that the staging holds of all devices but one
  std::string describe_;

  mutable std::mutex mutex_;  // of the communicators
  std::vector<ncclComm*> comms_;
  bool aborted_ = false;
  int error_ = 0;  // that NCCL told afterwards
  cudaError_t cuda_error_ = cudaSuccess;
};

}  // namespace tidepool
